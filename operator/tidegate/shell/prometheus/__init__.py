"""Prometheus, asked over HTTP: the only place where the operator speaks with it."""

from tidegate.shell.prometheus.client import Observe
from tidegate.shell.prometheus.port import PrometheusMetrics
from tidegate.shell.prometheus.unconfigured import Unconfigured
from tidegate.shell.settings import Prometheus

__all__ = ["PrometheusMetrics", "Unconfigured", "make"]


def make(settings: Prometheus, observe: Observe) -> PrometheusMetrics | Unconfigured:
    """Return the port as the settings have it."""
    if settings.url is None:
        return Unconfigured()
    return PrometheusMetrics(settings.url.rstrip("/"), settings, observe)
