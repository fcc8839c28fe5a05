"""Reading counts in buckets: quantiles, and how many lie above a time.

Within a bucket observations are taken to be spread evenly over the logarithm of time; in the first
one, which begins at zero, over time itself.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from tidegate.core.analysis.evidence import Histogram


def merged(histograms: Sequence[Histogram]) -> Histogram | None:
    """Return the sum of histograms; None where there is none.

    Gates of two versions may have different bounds: those with most observations are taken.
    """
    totals: Counter[tuple[float, ...]] = Counter()
    for histogram in histograms:
        totals[histogram.bounds] += histogram.total  # type: ignore[assignment]  # counts are floats
    if not totals:
        return None
    bounds = max(totals, key=lambda of: (totals[of], of))
    columns = zip(*(of.counts for of in histograms if of.bounds == bounds), strict=True)
    return Histogram(bounds, tuple(sum(column) for column in columns))


def quantile(histogram: Histogram, share: float) -> float | None:
    """Return the time in seconds that `share` of the observations are below; None without any.

    What lies in the last bucket, which has no end, is as long as its begin.
    """
    wanted = share * histogram.total
    if histogram.total <= 0 or not histogram.bounds:
        return None
    before = 0.0
    for index, count in enumerate(histogram.counts[:-1]):
        if count > 0 and before + count >= wanted:
            return _inside(histogram.bounds, index, (wanted - before) / count)
        before += count
    return histogram.bounds[-1]


def above(histogram: Histogram, seconds: float) -> float:
    """Return how many observations are longer than a time."""
    bounds, counts = histogram.bounds, histogram.counts
    index = bisect_left(bounds, seconds)
    if index == len(bounds):
        return counts[-1]
    beyond = histogram.from_bucket[index + 1]
    return beyond + counts[index] * (1 - _position(bounds, index, seconds))


def _inside(bounds: Sequence[float], index: int, position: float) -> float:
    """Return the time at a position (0 to 1) within a bucket."""
    upper = bounds[index]
    if index == 0 or bounds[index - 1] <= 0:
        return upper * position
    lower = bounds[index - 1]
    return lower * math.exp(position * math.log(upper / lower))


def _position(bounds: Sequence[float], index: int, seconds: float) -> float:
    """Return where in its bucket a time is, 0 to 1."""
    upper = bounds[index]
    if index == 0 or bounds[index - 1] <= 0:
        return seconds / upper
    lower = bounds[index - 1]
    return math.log(seconds / lower) / math.log(upper / lower)
