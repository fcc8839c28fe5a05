"""Alerts on pools of engines: memory, queues, caches, restarts, and pools that are gone."""

from tidegate.core.monitoring.promql import (
    NAME,
    POD,
    POOL,
    by_reason,
    condition,
    engine,
    gates,
    most,
    operators,
    total,
)
from tidegate.core.monitoring.rule import Alert, Group
from tidegate.core.monitoring.signals import SERVED

KV_USAGE = 0.95
"""Above what the loop sheds at by default (0.9): the levers did not help, or there are none."""
BACKLOG_SECONDS = 5
PREEMPTED_SHARE = 0.05
HIT_RATE_DROP = 0.5
_WORTH_A_CACHE = 0.2
_LEAST_PREFIX_TOKENS = 10
"""Tokens a second below which an hour's hit rate tells nothing."""
LEDGER_DRIFT = 0.2
_MINUTE = 60


def group() -> Group:
    """Return the alerts."""
    return Group(
        "tidegate.pool",
        (
            *(_kv_usage(), _backlog(), _preemptions(), _prefix_hits()),
            *(_no_endpoints(), _restarts(), _budget_drift(), _pair(), _ledger()),
        ),
    )


def _kv_usage() -> Alert:
    return Alert(
        name="KVUsageHigh",
        promql=f'tidegate:kv_usage:max{{pool!="prefill"}} > {KV_USAGE}',
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: the KV cache of pool {{{{ $labels.pool }}}} is full",
        description=(
            "The fullest pod of pool {{ $labels.pool }} has used "
            "{{ $value | humanizePercentage }} of its KV cache for 10 minutes. Requests wait, or "
            "are preempted and computed again."
        ),
    )


def _backlog() -> Alert:
    return Alert(
        name="PrefillBacklogHigh",
        promql=f'tidegate:prefill_backlog:seconds{{pool!="decode"}} > {BACKLOG_SECONDS}',
        severity="warning",
        for_seconds=5 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: prompts wait for pool {{{{ $labels.pool }}}}",
        description=(
            "The prompts that wait need {{ $value | humanizeDuration }} of prefill at the pool's "
            "own speed; every new request waits as long for its first token."
        ),
    )


def _preemptions() -> Alert:
    rate = "tidegate:preemptions:rate5m"
    return Alert(
        name="PreemptionsHigh",
        promql=(
            f"{rate} > {PREEMPTED_SHARE} * tidegate:engine_requests:rate5m "
            f"and {rate} > 1 / {_MINUTE}"
        ),
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: engines of pool {{{{ $labels.pool }}}} preempt requests",
        description=(
            "{{ $value | humanize }} requests a second lose their KV and are computed again, more "
            f"than {PREEMPTED_SHARE * 100:.0f} % of what the pool serves: gates let in more than "
            "the KV cache holds, or requests come past the gates."
        ),
    )


def _prefix_hits() -> Alert:
    ratio = "tidegate:prefix_cache_hit:ratio_rate1h"
    return Alert(
        name="PrefixHitRateDropped",
        promql=(
            f"{ratio} < {HIT_RATE_DROP} * ({ratio} offset 1d > {_WORTH_A_CACHE}) "
            f"and tidegate:prefix_cache_queries:rate1h > {_LEAST_PREFIX_TOKENS}"
        ),
        severity="warning",
        for_seconds=30 * _MINUTE,
        keep_seconds=10 * _MINUTE,
        summary=f"{NAME}: prefix caching of pool {{{{ $labels.pool }}}} has lost its worth",
        description=(
            "{{ $value | humanizePercentage }} of the prompt tokens of the last hour were in the "
            "prefix cache, less than half of yesterday's share: prefill has that much more to do."
        ),
    )


def _no_endpoints() -> Alert:
    ready = most(POOL, operators("tidegate_pool_ready_pods"))
    return Alert(
        name="NoEndpoints",
        promql=f"{ready} == 0 and {SERVED} == 1",
        severity="critical",
        for_seconds=2 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary=f"{NAME}: pool {{{{ $labels.pool }}}} has no ready pod",
        description=(
            "Pool {{ $labels.pool }} had ready pods and has none now, though some are asked for: "
            "requests are refused with 503, or, without a prefill pool, served slower."
        ),
    )


def _restarts() -> Alert:
    by = f"{POOL}, cause"
    count, process = operators("tidegate_engine_restarts_total"), operators("tidegate_leading")
    # not increase(): the first restart of a cause makes the series, from nothing to 1; a count
    # below the one before began anew
    before = f"last_over_time({count}[1d] offset 15m) <= {count} or {count} * 0"
    unknown = f"{process} unless last_over_time({process}[1d] offset 15m)"
    new = f"{count} - ({before}) unless on (instance) ({unknown})"
    return Alert(
        name="EngineRestarts",
        promql=f"{total(by, new)} >= 2",
        severity="warning",
        for_seconds=0,
        keep_seconds=10 * _MINUTE,
        summary=f"{NAME}: engines of pool {{{{ $labels.pool }}}} restart: {{{{ $labels.cause }}}}",
        description=(
            "{{ $value }} restarts of engines of pool {{ $labels.pool }} in 15 minutes for "
            "{{ $labels.cause }}. Each ends the streams of its pod and loads the model anew."
        ),
    )


def _budget_drift() -> Alert:
    drifts = 'type="BudgetDrift", status="True"'
    return Alert(
        name="BudgetDrift",
        promql=condition(drifts),
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=0,
        summary=f"{NAME}: engines have another KV cache than was planned",
        description=(
            f"Condition BudgetDrift is True{by_reason(drifts)}: a term of the memory budget "
            "is off. Gates go by what was measured; the next rollout takes it into the plan."
        ),
    )


def _pair() -> Alert:
    return Alert(
        name="PairIncompatible",
        promql=condition('reason="PairIncompatible"'),
        severity="critical",
        for_seconds=2 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary=f"{NAME}: prefill and decode do not work together",
        description=(
            "A gate's trial request failed between a prefill and a decode pod that are both "
            "ready, twice or more: the pair answers nothing, or only some of its requests. Or the "
            "plan is refused with this reason; the condition's message says which."
        ),
    )


def _ledger() -> Alert:
    reserved = total(POD, gates("tidegate_gate_tokens_reserved"))
    capacity = total(POD, gates("tidegate_gate_tokens_capacity"))
    ledger = f"{reserved} / ({capacity} > 0)"
    usage = f"avg by ({POD}) ({engine('vllm:kv_cache_usage_perc')})"  # of all engines of a pod
    running = total(POD, engine("vllm:num_requests_running"))
    waiting = total(POD, engine("vllm:num_requests_waiting"))
    past = f"{usage} - {ledger} > {LEDGER_DRIFT}"
    leaked = f"({ledger} > {LEDGER_DRIFT}) and {running} == 0 and {waiting} == 0"
    return Alert(
        name="GateLedgerDrift",
        promql=f"{past} or {leaked}",
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: ledger and KV cache of pod {{{{ $labels.pod }}}} differ",
        description=(
            "The gates' ledger and the KV cache of pod {{ $labels.pod }} differ by "
            "{{ $value | humanizePercentage }} of its capacity for 10 minutes: requests come past "
            "the gates, or tokens were never given back."
        ),
    )
