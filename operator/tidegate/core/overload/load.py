"""What a deployment's gates carry, and how much more they could: for shifts to it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.overload.rows import Answer, Figures, Place, by_key
from tidegate.core.overload.samples import Scrapes
from tidegate.core.overload.signal import Sample, Unknown

_LEAST_PER_SECOND = 0.05
"""Below this rate what a request holds on average is chance: three requests in a minute."""


@dataclass(frozen=True)
class Load:
    """The requests of a deployment, and the KV tokens that its gates hold for them.

    Attributes:
        requests_per_second: Requests that come, those that are turned away or shifted included.
        admitted_per_second: Requests that get a seat on a pod.
        reserved_tokens: Tokens that are reserved in the pool with the least left.
        capacity_tokens: Tokens that may be.
    """

    requests_per_second: float
    admitted_per_second: float
    reserved_tokens: float
    capacity_tokens: float

    @property
    def tokens_per_rate(self) -> float | None:
        """Tokens that one request per second holds all the time; None where too few come."""
        if self.admitted_per_second < _LEAST_PER_SECOND:
            return None
        return self.reserved_tokens / self.admitted_per_second


def loads(
    answer: Answer, now: float, interval_seconds: float, took_seconds: float = 0.0
) -> Iterator[tuple[Place, Load]]:
    """Return what was told of each deployment; of one whose figures are old or odd, nothing."""
    if isinstance(answer, Unknown):
        return
    scrapes = Scrapes(now, interval_seconds, took_seconds)
    pools: dict[Place, list[Figures]] = {}
    rates: dict[Place, Figures] = {}
    for (place, (pool,)), figures in by_key(answer, "pool").items():
        if pool:
            pools.setdefault(place, []).append(figures)
        else:
            rates[place] = figures
    for place, figures in rates.items():
        load = _load(figures, pools.get(place, []), scrapes)
        if load is not None:
            yield place, load


def _load(rates: Figures, pools: list[Figures], scrapes: Scrapes) -> Load | None:
    told = [scrapes.judge(name, rates, rates.get(name)) for name in ("requests", "admitted")]
    known = [each.value for each in told if isinstance(each, Sample)]
    tightest = min((_tokens(figures) for figures in pools), key=_left, default=None)
    if len(known) < len(told) or tightest is None or not all(map(math.isfinite, tightest)):
        return None
    return Load(known[0], known[1], *tightest)


def _tokens(figures: Figures) -> tuple[float, float]:
    """Return reserved and capacity; what was not told is no number."""
    reserved, capacity = figures.get("reserved"), figures.get("capacity")
    if reserved is None or capacity is None:
        return math.nan, math.nan
    return reserved, capacity


def _left(tokens: tuple[float, float]) -> float:
    reserved, capacity = tokens
    left = (capacity - reserved) / capacity if capacity > 0 else 0.0
    return -math.inf if math.isnan(left) else left


def spare_per_second(target: Load, source: Load | None, budget: float) -> float | None:
    """Return how many more requests a second a deployment can take; None where nothing tells.

    What one request holds is known from those that the target serves; of an idle target, from
    those of the deployment that would shift to it.

    Args:
        target: The deployment that would take them.
        source: The one that would give them.
        budget: Share of the target's capacity that may be in use, 0 to 1.
    """
    left = max(0.0, budget * target.capacity_tokens - target.reserved_tokens)
    if left == 0.0:
        return 0.0
    each = target.tokens_per_rate or (source.tokens_per_rate if source else None)
    return left / each if each else None
