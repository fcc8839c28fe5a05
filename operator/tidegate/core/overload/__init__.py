"""The slow loop: from what Prometheus tells of the pools to the shares that gates hold."""
