"""Shares of both sides compared within intervals (Cochran, Mantel and Haenszel).

The standard error comes from what is seen between intervals, never less than what single requests
would scatter: requests of one interval share a queue, and tokens of one answer share an engine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.analysis import distributions

_GROUPS = (1, 2, 4)
"""Neighbouring intervals taken as one, in case that what happens in one lasts into the next."""
_FEWEST_GROUPS = 8


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
        degrees: Degrees of freedom of the error: intervals less one.
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
    rests = [w * (of.difference - value) for w, of in zip(weights, met, strict=True)]
    variance = max(_of_requests(met), *(_between(rests, size) for size in _GROUPS))
    return Difference(value, math.sqrt(variance) / whole, _degrees(weights))


def _of_requests(strata: Sequence[Stratum]) -> float:
    """Return the variance of the weighted sum if each request were on its own."""
    hits = sum(of.canary + of.baseline for of in strata)
    share = hits / sum(of.canary_of + of.baseline_of for of in strata)
    return share * (1 - share) * sum(of.weight for of in strata)


def _between(rests: Sequence[float], size: int) -> float:
    """Return the variance of the weighted sum by what groups of intervals differ; 0: too few."""
    groups = [sum(rests[start : start + size]) for start in range(0, len(rests), size)]
    if size > 1 and len(groups) < _FEWEST_GROUPS:
        return 0.0
    return sum(group * group for group in groups) * len(groups) / (len(groups) - 1)


def _degrees(weights: Sequence[float]) -> float:
    """Return the number of equal intervals that would weigh as much, less one."""
    return sum(weights) ** 2 / sum(w * w for w in weights) - 1
