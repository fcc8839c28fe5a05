"""The load of one deployment, from what its gates counted between two reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.levers import samples
from tidegate.core.levers.gates import Gates
from tidegate.core.levers.quantile import quantile
from tidegate.core.levers.samples import Reading, Window

_REQUESTS = "tidegate_gate_requests_total"
_ADMITTED = "tidegate_gate_admitted_total"
_CAPACITY = "tidegate_gate_tokens_capacity"
_FAILED = (
    *("engine-failed", "engine-full", "unreachable"),
    *("deadline", "total-deadline", "gate-gone"),
)
"""Outcomes of requests that had a seat and were not served."""
FEWEST_FOR_CLASSES = 20
"""Requests in the window from which on the mix of classes says something."""


@dataclass(frozen=True)
class Load:
    """What clients ask of a deployment, and what becomes of it. Rates are requests per second.

    Attributes:
        gates: How many there are, and how many told twice: the rest is not in the numbers.
        asked: Requests that came: seated, turned away or shifted; None where no gate told twice.
        admitted: Requests that got a seat on a pod.
        by_class: Requests that were over, by class; empty where too few were.
        refused: Turned away, by reason.
        shifted: Served by another deployment.
        finished: Ended well.
        failed: Had a seat and were not served, by outcome.
        reserved_tokens: KV tokens reserved on all pods.
        capacity_tokens: KV tokens that the gates may reserve; 0 where none told.
        tightest: Both, of the pool with the least left.
        queued: Requests that wait, by class.
        shed_percent, shift_percent: The largest share that a gate applies now.
        ttft_seconds, tpot_seconds: p50 and p95; None with too few samples.
        output_tokens: Tokens generated in a second; None where no gate told twice.
    """

    gates: Gates = field(default_factory=Gates)
    asked: float | None = None
    admitted: float = 0.0
    by_class: Mapping[int, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)
    shifted: float = 0.0
    finished: float = 0.0
    failed: Mapping[str, float] = field(default_factory=dict)
    reserved_tokens: float = 0.0
    capacity_tokens: float = 0.0
    tightest: tuple[float, float] = (0.0, 0.0)
    queued: Mapping[int, int] = field(default_factory=dict)
    shed_percent: float = 0.0
    shift_percent: float = 0.0
    ttft_seconds: tuple[float | None, float | None] = (None, None)
    tpot_seconds: tuple[float | None, float | None] = (None, None)
    output_tokens: float | None = None

    @property
    def used(self) -> float | None:
        """Return the share of the KV tokens that is reserved, of 1; None where not known."""
        return self.reserved_tokens / self.capacity_tokens if self.capacity_tokens else None


def load(
    before: Mapping[str, Reading], after: Mapping[str, Reading], total: int | None = None
) -> Load:
    """Reckon the load over all gates, by name, from two readings of each.

    `total` is how many gates there are, those that do not answer included; None: those read.
    """
    found = samples.windows(before, after)
    now = list(after.values())
    ended = [
        (labels, rate)
        for labels, rate in samples.rates(found, _REQUESTS)
        if labels["outcome"] != "answered"  # by the gate itself, as /v1/models
    ]
    refused = _summed(ended, "reason", ("refused",))
    shifted = sum(rate for labels, rate in ended if labels["outcome"] == "shifted")
    admitted = sum(rate for _, rate in samples.rates(found, _ADMITTED))
    return Load(
        gates=Gates(len(after) if total is None else total, len(found)),
        admitted=admitted,
        asked=admitted + sum(refused.values()) + shifted if found else None,
        by_class=_classes(found, ended),
        refused=refused,
        shifted=shifted,
        finished=sum(rate for labels, rate in ended if labels["outcome"] == "finished"),
        failed=_summed(ended, "outcome", _FAILED),
        reserved_tokens=_sum(now, "tidegate_gate_tokens_reserved"),
        capacity_tokens=_sum(now, _CAPACITY),
        tightest=_tightest(now),
        queued=_queued(now),
        shed_percent=_largest(now, "tidegate_gate_shed_percent"),
        shift_percent=_largest(now, "tidegate_gate_shift_percent"),
        ttft_seconds=_quantiles(found, "tidegate_gate_ttft_seconds"),
        tpot_seconds=_quantiles(found, "tidegate_gate_inter_token_seconds"),
        output_tokens=_generated(found),
    )


def outcomes(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> dict[str, int]:
    """Return how many requests ended in between, by outcome."""
    totals: dict[str, float] = {}
    for window in samples.windows(before, after):
        for labels, grown in window.increases(_REQUESTS):
            totals[labels["outcome"]] = totals.get(labels["outcome"], 0.0) + grown
    return {outcome: round(count) for outcome, count in sorted(totals.items()) if count}


def _classes(
    found: Sequence[Window], ended: Sequence[tuple[dict[str, str], float]]
) -> dict[int, float]:
    counted = sum(
        grown
        for window in found
        for labels, grown in window.increases(_REQUESTS)
        if labels["outcome"] != "answered"
    )
    if counted < FEWEST_FOR_CLASSES:
        return {}
    classes: dict[int, float] = {}
    for labels, rate in ended:
        number = int(labels["class"])
        classes[number] = classes.get(number, 0.0) + rate
    return dict(sorted(classes.items()))


def _summed(
    ended: Sequence[tuple[dict[str, str], float]], key: str, wanted: Sequence[str]
) -> dict[str, float]:
    totals: dict[str, float] = {}
    for labels, rate in ended:
        if labels["outcome"] in wanted and rate:
            totals[labels[key]] = totals.get(labels[key], 0.0) + rate
    return dict(sorted(totals.items()))


def _sum(now: Sequence[Reading], name: str) -> float:
    return sum(value for reading in now for _, value in reading.select(name))


def _tightest(now: Sequence[Reading]) -> tuple[float, float]:
    """Return the tokens reserved and to be reserved in the pool with the least left."""
    pools: dict[str, list[float]] = {}
    for place, name in enumerate(("tidegate_gate_tokens_reserved", _CAPACITY)):
        for reading in now:
            for labels, value in reading.select(name):
                pools.setdefault(labels["pool"], [0.0, 0.0])[place] += value
    known = [(reserved, capacity) for reserved, capacity in pools.values() if capacity > 0]
    return min(known, key=lambda tokens: 1 - tokens[0] / tokens[1], default=(0.0, 0.0))


def _largest(now: Sequence[Reading], name: str) -> float:
    return max((reading.value(name) or 0.0 for reading in now), default=0.0)


def _queued(now: Sequence[Reading]) -> dict[int, int]:
    totals: dict[int, int] = {}
    for reading in now:
        for labels, value in reading.select("tidegate_gate_queue_length"):
            number = int(labels["class"])
            totals[number] = totals.get(number, 0) + int(value)
    return {number: count for number, count in sorted(totals.items()) if count}


def _quantiles(found: Sequence[Window], name: str) -> tuple[float | None, float | None]:
    return quantile(0.5, found, name), quantile(0.95, found, name)


def _generated(found: Sequence[Window]) -> float | None:
    if not found:
        return None
    tokens = samples.rates(found, "tidegate_gate_tokens_total")
    return sum(rate for labels, rate in tokens if labels.get("kind") == "output")
