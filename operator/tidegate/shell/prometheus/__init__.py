"""Prometheus, asked over HTTP: the only place where the operator speaks with it."""

from tidegate.shell.prometheus.client import Observe
from tidegate.shell.prometheus.evidences import PrometheusEvidences
from tidegate.shell.prometheus.port import PrometheusMetrics
from tidegate.shell.prometheus.unconfigured import Unconfigured
from tidegate.shell.settings import Prometheus

__all__ = ["PrometheusEvidences", "PrometheusMetrics", "Unconfigured", "make", "make_evidences"]


def make_evidences(settings: Prometheus) -> PrometheusEvidences | None:
    """Return the judge's port as the settings have it; None where nothing can be judged."""
    if settings.url is None:
        return None
    return PrometheusEvidences(settings.url.rstrip("/"), settings)


def make(settings: Prometheus, observe: Observe) -> PrometheusMetrics | Unconfigured:
    """Return the port as the settings have it."""
    if settings.url is None:
        return Unconfigured()
    return PrometheusMetrics(settings.url.rstrip("/"), settings, observe)
