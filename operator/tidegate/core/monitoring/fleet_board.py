"""All deployments at a glance: which one needs a look."""

from tidegate.core.monitoring.board import Board, Panel, Query, Row
from tidegate.core.monitoring.promql import DEPLOYMENT, operators

_NAME = "{{namespace}}/{{llmdeployment}}"
_POOL = f"{_NAME} {{{{pool}}}}"


def _condition(matchers: str) -> str:
    return operators("tidegate_deployment_condition", matchers)


def board() -> Board:
    """Return the dashboard."""
    return Board(
        "fleet",
        "Tidegate: fleet",
        "All deployments at a glance.",
        (),
        (
            Row("What needs a look", (_ready(), _not_ready(), _pods(), _restarts())),
            Row("Load", (_requests(), _refused(), _tokens())),
            Row("Pressure", (_memory(), _backlog(), _preemptions())),
            Row("What users feel", (_ttft(), _tpot(), _survival())),
            Row("Levers and the operator", (_shares(), _levers(), _leaders(), _passes())),
        ),
    )


def _ready() -> Panel:
    ready = _condition('type="Ready", status="True"')
    whole = _condition('type="Ready"')
    return Panel(
        "Deployments that are ready",
        "Of all that there are.",
        (Query(f"sum({ready}) or vector(0)", "ready"), Query(f"sum({whole})", "all")),
        is_number=True,
    )


def _not_ready() -> Panel:
    troubled = _condition('type="Ready", status!="True"')
    whole = _condition('type="Ready"')
    none = f"sum({whole}) * 0"
    return Panel(
        "Not ready, by reason",
        "`tidegate explain REASON` says what each means.",
        (Query(f"sum by (reason) ({troubled}) or {none}", "{{reason}}"),),
    )


def _pods() -> Panel:
    desired, ready = (operators(f"tidegate_pool_{which}_pods") for which in ("desired", "ready"))
    missing = f"max by ({DEPLOYMENT}, pool) ({desired}) - max by ({DEPLOYMENT}, pool) ({ready})"
    return Panel("Pods that are missing", "Asked for less ready.", (Query(missing, _POOL),))


def _restarts() -> Panel:
    counted = operators("tidegate_engine_restarts_total")
    none = f"sum({operators('tidegate_pool_ready_pods')}) * 0"
    return Panel(
        "Restarts of engines since the operator's start, by cause",
        "Each ends the streams of its pod.",
        (Query(f"sum by (cause) ({counted}) or {none}", "{{cause}}"),),
    )


def _requests() -> Panel:
    return Panel(
        "Requests", "What clients send.", (Query("tidegate:requests:rate5m", _NAME),), "reqps"
    )


def _refused() -> Panel:
    share = "(tidegate:refused:rate5m or tidegate:requests:rate5m * 0) / tidegate:requests:rate5m"
    return Panel(
        "Refused", "Share of the requests.", (Query(share, _NAME),), "percentunit", top=1.0
    )


def _tokens() -> Panel:
    made = f"sum by ({DEPLOYMENT}) (tidegate:generation_tokens:rate5m)"
    return Panel("Tokens made", "By all engines, a second.", (Query(made, _NAME),))


def _memory() -> Panel:
    return Panel(
        "KV cache, the fullest pod",
        "From 0.9 the loop sheds by default.",
        (Query("tidegate:kv_usage:max", _POOL),),
        "percentunit",
        top=1.0,
    )


def _backlog() -> Panel:
    return Panel(
        "Prompts that wait",
        "How long prefill needs for them at the pool's own speed.",
        (Query("tidegate:prefill_backlog:seconds", _POOL),),
        "s",
    )


def _preemptions() -> Panel:
    return Panel(
        "Preemptions",
        "Requests that lose their KV and are computed again: near zero behind a gate.",
        (Query("tidegate:preemptions:rate5m", _POOL),),
        "reqps",
    )


def _ttft() -> Panel:
    return Panel(
        "Time to first token, p95",
        "At the gates, waiting included.",
        (Query("tidegate:ttft_seconds:p95_5m", _NAME),),
        "s",
    )


def _tpot() -> Panel:
    return Panel(
        "Time between tokens, p95",
        "At the gates.",
        (Query("tidegate:tpot_seconds:p95_5m", _NAME),),
        "s",
    )


def _survival() -> Panel:
    return Panel(
        "Survival",
        "Share of the admitted requests that ended well.",
        (Query("tidegate:survival:ratio_rate15m", _NAME),),
        "percentunit",
        top=1.0,
    )


def _shares() -> Panel:
    return Panel(
        "Shed and shifted",
        "By the loop, or by somebody's lever.",
        (Query("tidegate:share:percent", f"{_NAME} {{{{lever}}}}"),),
        "percent",
        top=100.0,
    )


def _levers() -> Panel:
    held = operators("tidegate_override_until_timestamp_seconds")
    whole = _condition('type="Ready"')
    none = f"sum({whole}) * 0"
    return Panel(
        "Levers that are set",
        "By hand, with the time until they lapse.",
        (Query(f"{held} - time() or {none}", f"{_NAME} {{{{action}}}}"),),
        "s",
    )


def _leaders() -> Panel:
    return Panel(
        "Operators that lead",
        "One in each namespace of an operator; none means that nothing is repaired.",
        (Query(f"sum by (namespace) ({operators('tidegate_leading')})", "{{namespace}}"),),
        is_number=True,
    )


def _passes() -> Panel:
    passes = operators("tidegate_reconcile_passes_total")
    return Panel(
        "Passes of the operator",
        "By result.",
        (Query(f"sum by (result) (rate({passes}[$__rate_interval]))", "{{result}}"),),
    )
