"""Quantiles of a histogram's window, as Prometheus reckons them from buckets."""

import math
from collections.abc import Sequence

from tidegate.core.levers.samples import Window

FEWEST = 5
"""With fewer samples in the window a quantile says nothing: it is not known."""


def quantile(share: float, found: Sequence[Window], name: str) -> float | None:
    """Return a quantile (`share` of 1) over all gates; None with too few samples in the window.

    Within a bucket samples count as spread evenly. What is over the last bound is told as that
    bound: it is at least so much.
    """
    buckets: dict[float, float] = {}
    for window in found:
        for labels, grown in window.increases(f"{name}_bucket"):
            bound = float(labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + grown
    total = buckets.get(math.inf, 0.0)
    if total < FEWEST:
        return None
    rank = share * total
    lower, below = 0.0, 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= rank:
            if math.isinf(bound):
                return lower
            inside = buckets[bound] - below
            return lower + (bound - lower) * ((rank - below) / inside if inside else 1.0)
        lower, below = bound, buckets[bound]
    return None
