"""The plan of a slice held against what its engine told: by how much it is off, and by which term.

A difference of a term tells most where its bytes are most. The engine's words have two decimals of
a GiB, so that less than a few hundredths is no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.api.conditions import Status
from tidegate.api.quantities import format_bytes
from tidegate.api.reasons import Reason
from tidegate.core.budget import runtime
from tidegate.core.measure.learn import Reading
from tidegate.core.slice_plan import SlicePlan

_ROUNDING_BYTES = 16 * 2**20
_VERBS = {"the runtime": "takes", "the card": "has"}


@dataclass(frozen=True)
class Drift:
    """One slice's KV cache as it was planned and as it is; `term` is what is off, if it is told."""

    pool: str
    node_class: str
    planned_tokens: int
    measured_tokens: int
    blocks: int
    block_size: int
    term: str | None

    @property
    def percent(self) -> float:
        """How far the measured tokens are off, to a tenth; negative where there are fewer."""
        off = self.measured_tokens - self.planned_tokens
        return round(100 * off / self.planned_tokens, 1) + 0.0

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        why = self.term or "the engine's log does not tell which term is off"
        return (
            f"{self.pool} on {self.node_class}: {self.measured_tokens:,} tokens of KV where "
            f"{self.planned_tokens:,} were planned ({self.percent:+.1f} %); {why}"
        )


def of(planned: SlicePlan, reading: Reading) -> Drift | None:
    """Return how far a slice is off its plan; None for a plan without KV."""
    pool, cache = planned.sizing.pool, reading.cache
    if not pool.cache_size_tokens:
        return None
    return Drift(
        pool=planned.pool,
        node_class=planned.node_class.name,
        planned_tokens=pool.cache_size_tokens,
        measured_tokens=cache.size_tokens,
        blocks=cache.blocks,
        block_size=cache.block_size,
        term=_term(planned, reading),
    )


def judge(drifts: Sequence[Drift], limit_percent: float) -> tuple[Status, Reason, str]:
    """Return status, reason and message of BudgetDrift, from all slices that were read."""
    if not drifts:
        return "Unknown", Reason.NOT_MEASURED, "No engine has told of its KV cache yet."
    worst = max(drifts, key=lambda drift: (abs(drift.percent), drift.pool, drift.node_class))
    if abs(worst.percent) <= limit_percent:
        message = f"Engines have the KV that was planned, within {limit_percent:g} %."
        return "False", Reason.AS_PLANNED, message
    is_less = worst.percent < 0
    reason = Reason.KV_SMALLER_THAN_PLANNED if is_less else Reason.KV_LARGER_THAN_PLANNED
    after = "What was measured is used when pods are next replaced; they stay until then."
    return "True", reason, f"{worst.sentence}. {after}"


def _term(planned: SlicePlan, reading: Reading) -> str | None:
    """Name what is off most, None where nothing is or nothing was told."""
    pool, cache = planned.sizing.pool, reading.cache
    if cache.block_size != pool.block_size:
        return f"its blocks hold {cache.block_size} tokens instead of {pool.block_size}"
    differences = {
        name: (told, expected)
        for name, told, expected in _terms(planned, reading)
        if told is not None and abs(told - expected) > _ROUNDING_BYTES
    }
    if not differences:
        return None
    name = max(differences, key=lambda name: abs(differences[name][0] - differences[name][1]))
    told, expected = differences[name]
    verb = _VERBS.get(name, "take")
    return f"{name} {verb} {format_bytes(told)} where {format_bytes(expected)} were expected"


def _terms(planned: SlicePlan, reading: Reading) -> list[tuple[str, int | None, int]]:
    """Return what was told of each term beside what was planned."""
    budget, log = planned.sizing.budget, reading.log
    outside = runtime.outside(planned.engine).bytes
    return [
        ("weights", log.weights_bytes, budget.weights.bytes + budget.draft.bytes),
        ("activations", log.activations_bytes, budget.activations.bytes),
        ("CUDA graphs", log.cuda_graphs_bytes, budget.cuda_graphs.bytes),
        ("the runtime", log.non_torch_bytes, budget.runtime.bytes - outside),
        ("the card", log.total_bytes, budget.total.bytes),
    ]
