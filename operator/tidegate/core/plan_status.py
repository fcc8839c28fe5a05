"""The plan as `status.plan` and `tidegate plan -o json` show it."""

from collections.abc import Iterable

from tidegate.api import llmdeployment_status as wire
from tidegate.api.figures import Figure
from tidegate.core.budget.sizing import Budget
from tidegate.core.measure.drift import Drift
from tidegate.core.plan import Plan, SlicePlan

_MOST_SENTENCES = 32
_LONGEST_SENTENCE = 1024


def entries(plan: Plan, drifts: Iterable[Drift] = ()) -> list[wire.SlicePlan]:
    """Return one entry for each slice of a plan, with what was measured of it."""
    measured = {(drift.pool, drift.node_class): drift for drift in drifts}
    return [
        _entry(entry, measured.get((entry.pool, entry.node_class.name))) for entry in plan.slices
    ]


def exclusions(plan: Plan) -> list[str]:
    """Return one line for each class of node that a pool cannot use."""
    return [str(exclusion)[:_LONGEST_SENTENCE] for exclusion in plan.exclusions]


def kv_tokens(plan: Plan) -> int:
    """Return the tokens that the KV caches of all pods that decode hold together."""
    return sum(
        entry.replicas * entry.sizing.pool.cache_size_tokens
        for entry in plan.slices
        if entry.pool != "prefill"
    )


def _entry(entry: SlicePlan, drift: Drift | None) -> wire.SlicePlan:
    pool, sizing = entry.sizing.pool, entry.sizing
    return wire.SlicePlan(
        pool=entry.pool,
        node_class=entry.node_class.name,
        gpu_product=entry.node_class.product,
        nodes=entry.nodes,
        replicas=entry.replicas,
        per_gpu=budget(sizing.budget),
        kv_bytes_per_token=pool.bytes_per_token,
        kv_block_size=pool.block_size,
        kv_blocks=pool.num_blocks,
        kv_tokens=pool.cache_size_tokens,
        concurrent_requests=wire.Concurrency(
            at_max_model_len=sizing.requests_at_max_model_len, at_p95=sizing.requests_at_p95
        ),
        prefill=_prefill(entry),
        measured=_measured(drift) if drift else None,
        because=[line[:_LONGEST_SENTENCE] for line in entry.because[:_MOST_SENTENCES]],
    )


def _prefill(entry: SlicePlan) -> wire.PrefillSpeed | None:
    speed = entry.prefill_tokens_per_second
    if speed is None or not entry.prefills:
        return None
    return wire.PrefillSpeed(tokens_per_second=round(speed))


def _measured(drift: Drift) -> wire.MeasuredKV:
    return wire.MeasuredKV(
        kv_tokens=drift.measured_tokens,
        kv_blocks=drift.blocks,
        block_size=drift.block_size,
        drift_percent=min(drift.percent, wire.MOST_DRIFT_PERCENT),
    )


def budget(of: Budget) -> wire.GpuBudget:
    """Return a GPU's budget line by line."""
    return wire.GpuBudget(
        total=_line(of.total),
        weights=_line(of.weights),
        activations=_line(of.activations),
        cuda_graphs=_line(of.cuda_graphs),
        runtime=_line(of.runtime),
        draft=_line(of.draft),
        reserve=_line(of.reserve),
        kv_cache=_line(of.kv_cache),
    )


def _line(figure: Figure) -> wire.BudgetLine:
    return wire.BudgetLine(
        bytes=figure.bytes, low=figure.low, high=figure.high, how=figure.how.value
    )
