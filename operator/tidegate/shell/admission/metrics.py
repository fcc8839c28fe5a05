"""What the webhook tells of itself."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.shell.admission.verdict import ERROR
from tidegate.shell.admission.wire import REVIEWED

OTHER = "other"
"""The operation of what is not reviewed, or could not be read."""
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class AdmissionMetrics:
    """Admissions by verdict and reason, how long they took, and when the certificate ends."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.admissions = Counter(
            "tidegate_admissions",
            "Reviews by verdict (allowed, warned, refused, denied, error) and the first reason.",
            ["operation", "verdict", "reason"],
            registry=registry,
        )
        for operation in (*REVIEWED, OTHER):  # at 0: the alert is on the growth of these
            self.admissions.labels(operation, ERROR, "")
        self.seconds = Histogram(
            "tidegate_admission_seconds",
            "Duration of a call of the webhook, from its head to its answer.",
            ["path"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.serving = Gauge(
            "tidegate_webhook_serving",
            "1 while a review that comes to this replica is answered, else 0.",
            registry=registry,
        )
        self.certificate = CertificateEnd()
        registry.register(self.certificate)


class CertificateEnd(Collector):
    """When the webhook's certificate ends: told only while there is one."""

    def __init__(self) -> None:
        self.expires: float | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the family, without a sample where it is not known."""
        yield GaugeMetricFamily(
            "tidegate_webhook_certificate_expiry_timestamp_seconds",
            "When the webhook's certificate ends, in Unix time; absent while there is none.",
            value=self.expires,
        )
