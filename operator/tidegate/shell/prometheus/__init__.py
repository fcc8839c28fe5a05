"""Prometheus, asked over HTTP: the only place where the operator speaks with it."""

from tidegate.shell.prometheus.port import PrometheusMetrics

__all__ = ["PrometheusMetrics"]
