"""Shares of both sides compared within intervals (Cochran, Mantel and Haenszel).

The standard error comes from what is seen between intervals, never less than what single requests
would scatter: requests of one interval share a queue, and tokens of one answer share an engine.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.analysis import distributions

_MOST_CORRELATION = 0.9
_ROUNDING = 1e-12
"""Part of an interval's size that arithmetic alone may put it off the mean."""


@dataclass(frozen=True)
class Stratum:
    """How many of how many, on both sides, in one interval."""

    canary: float
    canary_of: float
    baseline: float
    baseline_of: float

    @property
    def weight(self) -> float:
        """What the interval counts for; 0 where a side has nothing."""
        whole = self.canary_of + self.baseline_of
        return self.canary_of * self.baseline_of / whole if whole > 0 else 0.0

    @property
    def difference(self) -> float:
        """The canary's share less the baseline's."""
        return self.canary / self.canary_of - self.baseline / self.baseline_of


@dataclass(frozen=True)
class Difference:
    """The canary's share less the baseline's, and how sure that is.

    Attributes:
        value: The difference.
        error: Its standard error.
        degrees: Degrees of freedom of the error: as many intervals as they are worth, less one.
    """

    value: float
    error: float
    degrees: float

    @property
    def z(self) -> float:
        """How many standard errors it is above zero, as a standard normal value."""
        if self.error <= 0:
            return 0.0
        return distributions.normal_equivalent(self.value / self.error, self.degrees)


def compare(strata: Sequence[Stratum]) -> Difference | None:
    """Return the mean difference over intervals; None where no two sides meet in two of them."""
    met = [stratum for stratum in strata if stratum.weight > 0]
    if len(met) < 2:
        return None
    weights = [stratum.weight for stratum in met]
    whole = sum(weights)
    value = sum(w * of.difference for w, of in zip(weights, met, strict=True)) / whole
    rests = _beyond_rounding(
        [w * (of.difference - value) for w, of in zip(weights, met, strict=True)], weights
    )
    wider = widening(rests)
    variance = max(_of_requests(met), between(rests) * wider)
    return Difference(value, math.sqrt(variance) / whole, degrees(weights) / wider)


def _of_requests(strata: Sequence[Stratum]) -> float:
    """Return the variance of the weighted sum if each request were on its own."""
    hits = sum(of.canary + of.baseline for of in strata)
    share = hits / sum(of.canary_of + of.baseline_of for of in strata)
    return share * (1 - share) * sum(of.weight for of in strata)


def _beyond_rounding(rests: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Return what intervals are off the mean, without what is left by arithmetic alone.

    Intervals that agree in truth would seem to be correlated by that, in one way or another.
    """
    return [
        rest if abs(rest) > _ROUNDING * size else 0.0
        for rest, size in zip(rests, sizes, strict=True)
    ]


def between(rests: Sequence[float]) -> float:
    """Return the variance of a sum, by what each interval is off the mean (two or more)."""
    return sum(rest * rest for rest in rests) * len(rests) / (len(rests) - 1)


def widening(rests: Sequence[float], fitted: int = 1) -> float:
    """Return by how much correlation in time widens the variance of a sum.

    What happens in one interval lasts into the next, as queues do. The correlation of neighbours
    is found too small in few intervals, by about (1 + 3r) / n for each parameter that was fitted
    (Kendall 1954, for a mean): that is made good.
    """
    whole = sum(rest * rest for rest in rests)
    if whole <= 0:
        return 1.0
    found = sum(one * other for one, other in itertools.pairwise(rests)) / whole
    correlation = min(_MOST_CORRELATION, max(0.0, found + fitted * (1 + 3 * found) / len(rests)))
    return (1 + correlation) / (1 - correlation)


def degrees(weights: Sequence[float]) -> float:
    """Return the number of equal intervals that would weigh as much, less one."""
    return sum(weights) ** 2 / sum(w * w for w in weights) - 1
