"""Times as figures: percentiles, ratios, and how busy the machine was when they were taken."""

import math
import os
import time
from collections.abc import Callable, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` (0 to 1) of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def repeat(
    work: Callable[[], object], times: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the seconds that each of some calls took by a clock, after one that is not counted."""
    work()
    seconds = []
    for _ in range(times):
        begun = clock()
        work()
        seconds.append(clock() - begun)
    return seconds


def spread(seconds: Sequence[float]) -> str:
    """Return minimum and percentiles in milliseconds; the minimum is moved least by others."""
    low, middle, high = min(seconds), percentile(seconds, 0.5), percentile(seconds, 0.95)
    return f"min {1e3 * low:.2f}, p50 {1e3 * middle:.2f}, p95 {1e3 * high:.2f} ms"


def ratio(ours: float, theirs: float) -> str:
    """Return how many times as much as a baseline something is."""
    return f"{ours / theirs:.2f}x" if theirs else "no baseline"


def load() -> str:
    """Return how many processes wanted a core lately, and how many cores there are."""
    one, five, _ = os.getloadavg()
    return f"load average {one:.1f} (1 min), {five:.1f} (5 min) on {os.cpu_count()} cores"
