"""A rollout: the revisions of one deployment beside each other, canary and stable alike."""

from tidegate.core.monitoring.board import ONE, RATE, Board, Panel, Query, Row, rate
from tidegate.core.monitoring.promql import DEPLOYMENT, engine, most, operators
from tidegate.core.monitoring.signals import ENDED, LOST

_REVISION = "{{revision}}"
_SERVED = 'revision!=""'


def board() -> Board:
    """Return the dashboard."""
    return Board(
        "rollout",
        "Tidegate: rollout of one deployment",
        "Its revisions beside each other: the canary must be no worse than what is stable.",
        ("namespace", "llmdeployment"),
        (
            Row("Canary", (_step(), _weight(), _looks(), _failed())),
            Row("Traffic", (_requests(), _survival(), _outcomes(), _visits())),
            Row("What users feel", (_ttft(), _tpot())),
            Row("Engines", (_kv(), _preemptions(), _hit_rate(), _restarts())),
        ),
    )


def _step() -> Panel:
    return Panel(
        "Step",
        "Of the canary, from 1; nothing where no revision is tried.",
        (Query(most("revision", operators("tidegate_rollout_step", ONE)), _REVISION),),
        is_number=True,
    )


def _weight() -> Panel:
    return Panel(
        "Weight",
        "The canary's share of the requests, which follows at the gates.",
        (Query(most("revision", operators("tidegate_rollout_weight_ratio", ONE)), _REVISION),),
        "percentunit",
        top=1.0,
    )


def _looks() -> Panel:
    looks = operators("tidegate_rollout_looks", ONE)
    return Panel(
        "Verdicts at this step",
        "What the looks said; `kubectl tidegate status NAME` has each metric of the last one.",
        (Query(most("revision, verdict", looks), "{{revision}} {{verdict}}"),),
    )


def _failed() -> Panel:
    failed = operators("tidegate_rollout_failed_revisions", ONE)
    return Panel(
        "Revisions that were taken back",
        "Remembered, and not tried again by themselves.",
        (Query(most(DEPLOYMENT, failed), "{{llmdeployment}}"),),
        is_number=True,
    )


def _requests() -> Panel:
    return Panel(
        "Requests, by revision",
        "A canary's share is its weight.",
        (Query(rate("revision", "tidegate_gate_requests_total", _SERVED), _REVISION),),
        "reqps",
    )


def _survival() -> Panel:
    good = rate("revision", ENDED, f'{_SERVED}, outcome="finished"')
    ended = rate("revision", ENDED, f'{_SERVED}, outcome=~"finished|{LOST}"')
    return Panel(
        "Survival, by revision",
        "Share of the admitted requests that ended well.",
        (Query(f"({good} or {ended} * 0) / ({ended} > 0)", _REVISION),),
        "percentunit",
        top=1.0,
    )


def _outcomes() -> Panel:
    ended = rate("revision, outcome", ENDED, _SERVED)
    return Panel(
        "Outcomes, by revision",
        "How requests ended.",
        (Query(ended, "{{revision}} {{outcome}}"),),
        "reqps",
    )


def _visits() -> Panel:
    first = rate("revision, outcome", "tidegate_gate_visits_total", 'attempt="first"')
    return Panel(
        "What the first pod made of requests, by revision",
        "Whatever another pod made good: what a canary is judged by.",
        (Query(first, "{{revision}} {{outcome}}"),),
        "reqps",
    )


def _ttft() -> Panel:
    return _latency("Time to first token, by revision", "tidegate_gate_ttft_seconds_bucket")


def _tpot() -> Panel:
    return _latency("Time between tokens, by revision", "tidegate_gate_inter_token_seconds_bucket")


def _latency(title: str, metric: str) -> Panel:
    buckets = rate("le, revision", metric, _SERVED)
    return Panel(
        title,
        "p50 and p95 at the gates.",
        tuple(
            Query(f"histogram_quantile({share}, {buckets})", f"{name} {_REVISION}")
            for name, share in (("p50", 0.5), ("p95", 0.95))
        ),
        "s",
    )


def _kv() -> Panel:
    usage = engine("vllm:kv_cache_usage_perc", matchers=ONE)
    return Panel(
        "KV cache, the fullest pod of a revision",
        "By pool.",
        (Query(f"max by (revision, pool) ({usage})", "{{revision}} {{pool}}"),),
        "percentunit",
        top=1.0,
    )


def _preemptions() -> Panel:
    counted = engine("vllm:num_preemptions_total", RATE, "rate", ONE)
    return Panel(
        "Preemptions, by revision",
        "Requests that lost their KV and are computed again.",
        (Query(f"sum by (revision) ({counted})", _REVISION),),
        "reqps",
    )


def _hit_rate() -> Panel:
    hits = engine("vllm:prefix_cache_hits_total", RATE, "rate", ONE)
    queries = engine("vllm:prefix_cache_queries_total", RATE, "rate", ONE)
    ratio = f"sum by (revision) ({hits}) / (sum by (revision) ({queries}) > 0)"
    return Panel(
        "Prefix cache, by revision",
        "A new revision begins with an empty one.",
        (Query(ratio, _REVISION),),
        "percentunit",
        top=1.0,
    )


def _restarts() -> Panel:
    counted = operators("tidegate_engine_restarts_total", ONE)
    none = f"sum by (pool) ({operators('tidegate_pool_ready_pods', ONE)}) * 0"
    return Panel(
        "Restarts since the operator's start, by revision and cause",
        "None is what a canary should have.",
        (Query(f"sum by (revision, cause) ({counted}) or {none}", "{{revision}} {{cause}}"),),
    )
