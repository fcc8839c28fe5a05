"""Memory that grows: the slope of a canary's memory against its baseline's.

Each side's intervals become a few blocks, of which the median counts, and a line through them.
What is left beside the line is correlated, which widens its error. A cache that fills grows as
well, and then stops: a canary fails only if its later half still grows.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.analysis import betting, comparison, distributions, limits, shares
from tidegate.core.analysis.comparison import Comparison
from tidegate.core.analysis.evidence import Evidence, Measurement, Metric, Rule
from tidegate.core.analysis.timeline import Pair

_BLOCKS = 12
_FEWEST_POINTS = 4
_HOUR = 3600.0
_FITTED = 2


@dataclass(frozen=True)
class Slope:
    """Percent of the size at the begin, for each hour; with its standard error."""

    value: float
    error: float
    degrees: float


def measure(rule: Rule, pairs: Sequence[Pair], error_rate: float) -> Measurement:
    """Return what is said of the growth of memory."""
    metric, bound = Metric.MEMORY_GROWTH, rule.bound
    known = [
        pair
        for pair in pairs
        if pair.canary.memory_bytes is not None and pair.baseline.memory_bytes is not None
    ]
    if not known:
        return comparison.no_data(metric, bound, pairs, lambda side: side.memory_bytes is not None)
    needed = max(rule.min_samples, 2 * _FEWEST_POINTS)
    if len(known) < needed:
        count = len(known)
        return comparison.too_few(metric, bound, count, needed, "intervals", (count, count))
    found = _compared(rule, needed, known)
    words = (
        f"memory grows by {found.canary:+.1f} % an hour against {found.baseline:+.1f} %, in "
        f"{found.samples:,.0f} intervals"
    )
    margin = f"{bound.margin or 0.0:g} % an hour"
    return comparison.measured(metric, bound, found, error_rate, words, margin)


def slope(evidences: Sequence[Evidence]) -> Slope:
    """Return the growth of one side's memory."""
    points = _blocks(
        [(of.at / _HOUR, of.memory_bytes) for of in evidences if of.memory_bytes is not None]
    )
    if len(points) < _FEWEST_POINTS or points[0][1] <= 0:
        return Slope(0.0, math.inf, 1.0)
    begun = points[0][0]
    hours = [at - begun for at, _ in points]
    percents = [100 * (size / points[0][1] - 1) for _, size in points]
    line = statistics.linear_regression(hours, percents)
    rests = [y - line.slope * x - line.intercept for x, y in zip(hours, percents, strict=True)]
    middle = statistics.fmean(hours)
    width = sum((x - middle) ** 2 for x in hours)
    degrees, wider = len(points) - _FITTED, shares.widening(rests, _FITTED)
    variance = sum(rest * rest for rest in rests) / degrees / width
    return Slope(line.slope, math.sqrt(variance * wider), degrees / wider)


def _compared(rule: Rule, needed: int, pairs: Sequence[Pair]) -> Comparison:
    canary, baseline = slope([of.canary for of in pairs]), slope([of.baseline for of in pairs])
    late = pairs[len(pairs) // 2 :]
    late_excess = (
        slope([of.canary for of in late]).value - slope([of.baseline for of in late]).value
    )
    excess, error = canary.value - baseline.value, math.hypot(canary.error, baseline.error)
    degrees = min(canary.degrees, baseline.degrees)
    margin, absolute = rule.bound.margin, rule.bound.absolute
    # What a line tells grows with the cube of its length.
    information = (len(pairs) / needed) ** 3
    beyond = math.inf if margin is None else margin
    is_out = margin is None or _z(excess - margin, error, degrees) <= -limits.CERTAIN
    return Comparison(
        canary=canary.value,
        baseline=baseline.value,
        samples=len(pairs),
        baseline_samples=len(pairs),
        log_winnings=betting.of_drift(_z(excess, error, degrees), information, 1.0),
        is_beyond_half=min(excess, late_excess) > beyond / 2,
        is_ruled_out=is_out,
        breaks_absolute=absolute is not None and canary.value > absolute >= baseline.value,
    )


def _z(value: float, error: float, degrees: float) -> float:
    """Return standard errors above zero; without any scatter the value itself is sure."""
    if math.isinf(error):
        return 0.0
    return distributions.normal_equivalent(value / error if error > 0 else _sure(value), degrees)


def _sure(value: float) -> float:
    return math.copysign(1e6, value) if value else 0.0


def _blocks(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the middle of up to twelve blocks of equal numbers of points."""
    count = min(_BLOCKS, len(points))
    edges = [round(index * len(points) / count) for index in range(count + 1)] if count else []
    blocks = [points[start:end] for start, end in itertools.pairwise(edges)]
    return [
        (statistics.fmean(at for at, _ in block), statistics.median(size for _, size in block))
        for block in blocks
    ]
