"""Confidence limits of shares and rates, and of the difference of two (Wilson, Newcombe).

One-sided. A limit of a difference squares and adds the distances of each side's own limit, which
holds for few events and none, where a standard error would be zero.
"""

import math
from dataclasses import dataclass

from tidegate.core.analysis import distributions

LEVEL = 0.98
"""How sure it must be that a worsening that matters is ruled out."""
CERTAIN = distributions.normal_quantile(LEVEL)


@dataclass(frozen=True)
class Range:
    """A value between its lower and its upper limit."""

    low: float
    value: float
    high: float


def of_share(hits: float, total: float) -> Range:
    """Return a share with Wilson's limits; all from 0 to 1 is possible where there is nothing."""
    if total <= 0:
        return Range(0.0, 0.5, 1.0)
    share = hits / total
    middle = (share + CERTAIN * CERTAIN / (2 * total)) / (1 + CERTAIN * CERTAIN / total)
    half = CERTAIN * math.sqrt(
        share * (1 - share) / total + CERTAIN * CERTAIN / (4 * total * total)
    )
    half /= 1 + CERTAIN * CERTAIN / total
    return Range(max(0.0, min(share, middle - half)), share, min(1.0, max(share, middle + half)))


def of_rate(events: float, total: float) -> Range:
    """Return events for each of `total`, with score limits of a Poisson count."""
    if total <= 0:
        return Range(0.0, 0.0, math.inf)
    middle, half = (
        events + CERTAIN * CERTAIN / 2,
        CERTAIN * math.sqrt(events + CERTAIN * CERTAIN / 4),
    )
    return Range(max(0.0, middle - half) / total, events / total, (middle + half) / total)


def highest_difference(one: Range, other: Range) -> float:
    """Return the upper limit of one value less another."""
    return one.value - other.value + math.hypot(one.high - one.value, other.value - other.low)
