"""Alerts on the operator itself: without it engines and gates go on, and nothing is repaired."""

from tidegate.core.monitoring.promql import DEPLOYMENT, gates, operators
from tidegate.core.monitoring.rule import Alert, Group

SILENCE_SECONDS = 180
"""Three bookmarks missed: the API server sends one a minute on every watch."""
EXPIRY_SECONDS = 14 * 86_400
"""The operator renews 30 days before the end, cert-manager as well: half of that was missed."""
_ERROR_SHARE = 0.05
_MINUTE = 60


def group() -> Group:
    """Return the alerts."""
    return Group(
        "tidegate.operator",
        (_down(), _errors(), _watch(), _webhook(), _certificate()),
    )


def _down() -> Alert:
    return Alert(
        name="OperatorDown",
        promql=f"absent({operators('tidegate_leading')} == 1)",
        severity="critical",
        for_seconds=3 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary="No operator leads",
        description=(
            "Prometheus sees no Tidegate operator that leads, for 3 minutes. What serves goes on; "
            "nothing is rolled out, repaired, shed or let go, and shares lapse at the gates."
        ),
    )


def _errors() -> Alert:
    errors = operators("tidegate_reconcile_passes_total", 'result="error"')
    passes = operators("tidegate_reconcile_passes_total")
    return Alert(
        name="ReconcileErrors",
        promql=f"sum(rate({errors}[10m])) / sum(rate({passes}[10m])) > {_ERROR_SHARE}",
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary="Passes of the operator fail",
        description=(
            "{{ $value | humanizePercentage }} of the operator's passes of the last 10 minutes "
            "ended with an error: some deployments are not kept as they should be."
        ),
    )


def _watch() -> Alert:
    own = f"max by (resource) ({operators('tidegate_watch_silence_seconds')})"
    of_gates = f"max by ({DEPLOYMENT}, watch) ({gates('tidegate_gate_api_silence_seconds')})"
    return Alert(
        name="WatchStale",
        promql=f"{own} > {SILENCE_SECONDS} or {of_gates} > {SILENCE_SECONDS}",
        severity="warning",
        for_seconds=2 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary="A watch of {{ or $labels.resource $labels.watch }} is silent",
        description=(
            "The API server was last heard {{ $value | humanizeDuration }} ago on the watch of "
            "{{ or $labels.resource $labels.watch }}{{ if $labels.llmdeployment }} by a gate of "
            "{{ $labels.namespace }}/{{ $labels.llmdeployment }}{{ end }}; it sends something "
            "every minute. Decisions are made on what was true then."
        ),
    )


def _webhook() -> Alert:
    serving = operators("tidegate_webhook_serving")
    failed = operators("tidegate_admissions_total", 'verdict="error"')
    return Alert(
        name="WebhookDown",
        promql=f"max({serving}) == 0 or sum(increase({failed}[5m])) > 0",
        severity="critical",
        for_seconds=2 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary="Reviews are not answered",
        description=(
            "No replica serves the webhook, or reviews end with an error: LLMDeployments can be "
            "neither made nor changed, levers included. What runs is not affected."
        ),
    )


def _certificate() -> Alert:
    ends = operators("tidegate_webhook_certificate_expiry_timestamp_seconds")
    return Alert(
        name="CertificateExpiry",
        promql=f"min({ends} > 0) - time() < {EXPIRY_SECONDS}",
        severity="warning",
        for_seconds=60 * _MINUTE,
        keep_seconds=0,
        summary="The webhook's certificate is not renewed",
        description=(
            "The webhook's certificate ends in {{ $value | humanizeDuration }}; it should have "
            "been renewed 30 days before. Without one, LLMDeployments cannot be changed."
        ),
    )
