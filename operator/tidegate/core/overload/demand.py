"""How full KV caches would be if all requests came in: what they tell of themselves.

A cache is as full as what is let in makes it. So, unlike a queue, it says how far the shares may go
back before that is tried: as far as the highest demand of late fills it to `exit`.
"""

import math

from tidegate.core.overload import recent
from tidegate.core.overload.pressure import Known
from tidegate.core.overload.recent import Highest
from tidegate.core.overload.slew import Motion


def seen(
    motion: Motion, total: int, admitted_part: float | None, remembers_seconds: float
) -> Highest:
    """Return the demands of late with the present one, in parts of the fullest cache.

    Not before the last step has begun to show. While the caches still empty after it, the demand
    comes out too high, which errs on the side of those who are served.

    Args:
        motion: What the tick knows.
        total: Percent of the requests that are to be kept out.
        admitted_part: What is let in, by the gates' own counts, 0 to 1: more, where many are of
            classes that are never shed. None where that is unknown.
        remembers_seconds: How long a demand counts.
    """
    cache = motion.pressure.kv_usage
    has_shown = motion.now - motion.changed_at >= motion.settle_seconds
    let_in = max((100 - total) / 100, admitted_part or 0.0)
    now = _all_of(cache.sample.value, let_in) if cache and has_shown else None
    return recent.with_one(motion.timers.demands, now, motion.now, remembers_seconds)


def assumed(
    demands: Highest, cache: Known, total: int, now: float, remembers_seconds: float
) -> Highest:
    """Return the demands of late where a full cache has had the shares raised to an amount.

    A full one tells no more than that it is full: the amount is taken to be what was needed.
    """
    needed = _all_of(cache.threshold.exit, (100 - total) / 100)
    return recent.with_one(demands, needed, now, remembers_seconds)


def least_percent(motion: Motion) -> int:
    """Return the share with which KV caches are at `exit`: 0 where none is known, 100 until then.

    Until then: where no demand has been seen, how far is not known.
    """
    cache, most = motion.pressure.kv_usage, recent.highest(motion.timers.demands)
    if cache is None:
        return 0
    if most is None:
        return 100
    fits = cache.threshold.exit / max(most, cache.threshold.exit)
    return math.ceil(100 - 100 * fits)


def _all_of(usage: float, let_in: float) -> float:
    """Return the demand that fills caches so far with a part of it let in."""
    return usage / max(0.01, let_in)
