"""How commands reach a cluster and its gates, and what they are told."""
