"""Alerts on the operator itself: without it engines and gates go on, and nothing is repaired."""

from tidegate.core.monitoring.promql import DEPLOYMENT, gates, most, operators, total
from tidegate.core.monitoring.rule import Alert, Group

SILENCE_SECONDS = 180
"""Three bookmarks missed: the API server sends one a minute on every watch."""
EXPIRY_SECONDS = 14 * 86_400
"""The operator renews 30 days before the end, cert-manager as well: half of that was missed."""
_ERROR_SHARE = 0.05
_FAILING_SHARE = 0.5
_LEAST_ERRORS = 3
"""Fewer reviews that fail within five minutes page nobody."""
_WHERE = "{{ with $labels.namespace }} in {{ . }}{{ end }}"
"""The operator's namespace in an alert's text."""
_MINUTE = 60


def group() -> Group:
    """Return the alerts."""
    return Group(
        "tidegate.operator",
        (_down(), _errors(), _watch(), _webhook(), _certificate()),
    )


def _down() -> Alert:
    leading = operators("tidegate_leading")
    led = f"max by (namespace) (max_over_time({leading}[1d])) == 1"
    lost = f"{led} unless on (namespace) {leading} == 1"
    return Alert(
        name="OperatorDown",
        promql=f"{lost} or (absent({leading} == 1) unless on () ({lost}))",
        severity="critical",
        for_seconds=3 * _MINUTE,
        keep_seconds=5 * _MINUTE,  # after a day another series tells it, for_seconds later
        summary=f"No operator leads{_WHERE}",
        description=(
            f"Prometheus sees no Tidegate operator that leads{_WHERE}, for 3 minutes. What "
            "serves goes on; nothing is rolled out, repaired, shed or let go, and shares lapse at "
            "the gates."
        ),
    )


def _errors() -> Alert:
    errors = operators("tidegate_reconcile_passes_total", 'result="error"')
    passes = operators("tidegate_reconcile_passes_total")
    return Alert(
        name="ReconcileErrors",
        promql=(
            f"{total('namespace', f'rate({errors}[10m])')} "
            f"/ {total('namespace', f'rate({passes}[10m])')} > {_ERROR_SHARE}"
        ),
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"Passes of the operator{_WHERE} fail",
        description=(
            "{{ $value | humanizePercentage }} of the operator's passes of the last 10 minutes "
            "ended with an error: some deployments are not kept as they should be."
        ),
    )


def _watch() -> Alert:
    own = f"max by (namespace, resource) ({operators('tidegate_watch_silence_seconds')})"
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
    reviews = operators("tidegate_admissions_total")
    failed = operators("tidegate_admissions_total", 'verdict="error"')
    errors, whole = (total("namespace", f"increase({c}[5m])") for c in (failed, reviews))
    fail = f"{errors} >= {_LEAST_ERRORS} and {errors} / {whole} > {_FAILING_SHARE}"
    return Alert(
        name="WebhookDown",
        promql=f"{most('namespace', serving)} == 0 or {fail}",
        severity="critical",
        for_seconds=2 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary=f"Reviews{_WHERE} are not answered",
        description=(
            "No replica serves the webhook, or most reviews end with an error: LLMDeployments can "
            "be neither made nor changed, levers included. What runs is not affected."
        ),
    )


def _certificate() -> Alert:
    ends = operators("tidegate_webhook_certificate_expiry_timestamp_seconds")
    return Alert(
        name="CertificateExpiry",
        promql=f"min by (namespace) ({ends} > 0) - time() < {EXPIRY_SECONDS}",
        severity="warning",
        for_seconds=60 * _MINUTE,
        keep_seconds=0,
        summary=f"The webhook's certificate{_WHERE} is not renewed",
        description=(
            "The webhook's certificate ends in {{ $value | humanizeDuration }}; it should have "
            "been renewed 30 days before. Without one, LLMDeployments cannot be changed."
        ),
    )
