"""What the webhook tells of itself."""

from prometheus_client import CollectorRegistry, generate_latest

from tidegate.shell.admission.metrics import AdmissionMetrics

ENDS = "tidegate_webhook_certificate_expiry_timestamp_seconds"


def told(registry):
    """The samples of the certificate's end, as Prometheus reads them."""
    page = generate_latest(registry).decode()
    return [line for line in page.splitlines() if line.startswith(ENDS)]


def test_the_certificates_end_is_told_while_there_is_one_only():
    registry = CollectorRegistry()
    metrics = AdmissionMetrics(registry)

    assert told(registry) == []

    metrics.certificate.expires = 1000.0
    assert told(registry) == [f"{ENDS} 1000.0"]

    metrics.certificate.expires = None
    assert told(registry) == []
