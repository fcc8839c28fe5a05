"""The signals of every deployment and pool, recorded: for alerts, dashboards and people.

What the overload loop itself asks is in `core/overload/queries.py`: it must know how old a sample
is, which no recording tells.
"""

from tidegate.core.monitoring.promql import (
    DEPLOYMENT,
    POD,
    POOL,
    engine,
    gates,
    most,
    operators,
    total,
)
from tidegate.core.monitoring.rule import Group, Recording

LEVERS = ("shed", "shift")
LOST = "engine-failed|engine-full|unreachable|deadline|gate-gone"
"""Admitted, and not served by no doing of the client's. What took longer in all than the user lets
an answer take (`total-deadline`) is not among them."""
ENDED = "tidegate_gate_ended_total"
"""What is counted where the first failures count: its series are there before there are any."""
QUANTILES = {"p50": 0.5, "p95": 0.95}
SERVED = "tidegate:pool_served:bool"
"""The recording of whether a pool has had a ready pod since pods were last asked for: 1 or 0."""


def groups() -> tuple[Group, ...]:
    """Return the recordings, those that others build on first."""
    return (
        Group("tidegate.pools", (*_memory(), *_work(), *_prefixes(), _served())),
        Group("tidegate.deployments", (*_requests(), *_latencies(), *_shares())),
    )


def survival(window: str) -> str:
    """Return the share of the admitted requests that ended well."""
    ended = _ended(f"finished|{LOST}", window)
    well = f"{_ended('finished', window)} or {ended} * 0"  # a gate of which none has tells no such
    return f"({well}) / ({ended} > 0)"


def losses(window: str) -> str:
    """Return how many admitted requests did not end well."""
    lost = gates(ENDED, f'outcome=~"{LOST}"')
    return total(DEPLOYMENT, f"increase({lost}[{window}])")


def _memory() -> tuple[Recording, ...]:
    usage = engine("vllm:kv_cache_usage_perc")
    reserved = total(POOL, gates("tidegate_gate_tokens_reserved"))
    capacity = total(POOL, gates("tidegate_gate_tokens_capacity"))
    return (
        Recording("tidegate:kv_usage:max", most(POOL, usage)),
        Recording("tidegate:kv_usage:mean", f"avg by ({POOL}) ({usage})"),
        Recording("tidegate:kv_reserved:ratio", f"{reserved} / ({capacity} > 0)"),
        Recording("tidegate:preemptions:rate5m", _rate(POOL, "vllm:num_preemptions_total")),
    )


def _work() -> tuple[Recording, ...]:
    on_pods = gates("tidegate_gate_prefill_backlog_tokens")
    in_queues = gates("tidegate_gate_queued_prompt_tokens")
    waiting = total(POOL, f"{on_pods} or {in_queues}")  # labels differ, so this is all of both
    speed = f"avg by ({POD}) ({gates('tidegate_gate_prefill_tokens_per_second')})"
    return (
        Recording(
            "tidegate:requests_running:sum", total(POOL, engine("vllm:num_requests_running"))
        ),
        Recording(
            "tidegate:requests_waiting:sum", total(POOL, engine("vllm:num_requests_waiting"))
        ),
        Recording("tidegate:engine_requests:rate5m", _rate(POOL, "vllm:request_success_total")),
        Recording("tidegate:prompt_tokens:rate5m", _rate(POOL, "vllm:prompt_tokens_total")),
        Recording("tidegate:generation_tokens:rate5m", _rate(POOL, "vllm:generation_tokens_total")),
        Recording("tidegate:prefill_backlog:seconds", f"{waiting} / ({total(POOL, speed)} > 0)"),
    )


def _prefixes() -> tuple[Recording, ...]:
    hits, queries = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
    recorded = [Recording("tidegate:prefix_cache_queries:rate1h", _rate(POOL, queries, "1h"))]
    for window in ("5m", "1h"):
        ratio = f"{_rate(POOL, hits, window)} / ({_rate(POOL, queries, window)} > 0)"
        recorded.append(Recording(f"tidegate:prefix_cache_hit:ratio_rate{window}", ratio))
    return tuple(recorded)


def _served() -> Recording:
    """Remember by the recording's own last value, however long ago the pod was ready.

    An hour without a value, as while no operator is scraped, forgets.
    """
    ready = most(POOL, operators("tidegate_pool_ready_pods"))
    desired = most(POOL, operators("tidegate_pool_desired_pods"))
    before = most(POOL, f"last_over_time({SERVED}[1h])")
    return Recording(
        SERVED, f"{desired} == 0 or sgn({ready}) > 0 or {before} and {desired} or {desired} * 0"
    )


def _requests() -> tuple[Recording, ...]:
    of_clients = gates("tidegate_gate_requests_total", 'outcome!="answered"')
    refused = gates("tidegate_gate_requests_total", 'outcome="refused"')
    admitted = gates("tidegate_gate_admitted_total")
    return (
        Recording("tidegate:requests:rate5m", total(DEPLOYMENT, f"rate({of_clients}[5m])")),
        Recording("tidegate:admitted:rate5m", total(DEPLOYMENT, f"rate({admitted}[5m])")),
        Recording("tidegate:refused:rate5m", total(DEPLOYMENT, f"rate({refused}[5m])")),
        Recording("tidegate:survival:ratio_rate15m", survival("15m")),
    )


def _latencies() -> tuple[Recording, ...]:
    return tuple(
        Recording(
            f"tidegate:{name}_seconds:{quantile}_5m",
            f"histogram_quantile({share}, {_buckets(histogram)})",
        )
        for name, histogram in (("ttft", "ttft"), ("tpot", "inter_token"))
        for quantile, share in QUANTILES.items()
    )


def _shares() -> tuple[Recording, ...]:
    shares, directions = [], []
    for lever in LEVERS:
        percent = most(DEPLOYMENT, gates(f"tidegate_gate_{lever}_percent"))
        shares.append(Recording("tidegate:share:percent", percent, lever))
        now = f'tidegate:share:percent{{lever="{lever}"}}'
        moved = f"sgn({now} - {now} offset 1m) != 0"  # nothing while the share stands still
        directions.append(Recording("tidegate:share:direction", moved, lever))
    return (*shares, *directions)


def _buckets(histogram: str) -> str:
    return total(
        f"{DEPLOYMENT}, le", f"rate({gates(f'tidegate_gate_{histogram}_seconds_bucket')}[5m])"
    )


def _rate(by: str, metric: str, window: str = "5m") -> str:
    return total(by, engine(metric, window, "rate"))


def _ended(outcomes: str, window: str) -> str:
    of_them = gates(ENDED, f'outcome=~"{outcomes}"')
    return total(DEPLOYMENT, f"rate({of_them}[{window}])")
