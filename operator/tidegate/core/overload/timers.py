"""What the loop remembers from tick to tick, and how it comes about."""

from dataclasses import replace

from tidegate.core.overload import slew
from tidegate.core.overload.decision import Timers
from tidegate.core.overload.pressure import Pressure


def advanced(timers: Timers, pressure: Pressure, now: float) -> Timers:
    """Return the timers after a look at the signals; what is unknown is neither over nor under."""
    is_under = pressure.is_under and not pressure.has_gaps
    return replace(
        timers,
        over_since=_since(timers.over_since, pressure.is_over, now),
        under_since=_since(timers.under_since, is_under, now),
        unknown_since=_since(timers.unknown_since, pressure.has_gaps, now),
        trail=_trail(timers.trail, pressure),
    )


def learned(timers: Timers, before: int, after: int, exit_after_seconds: float) -> Timers:
    """Return the timers after the loop has moved the shares from one amount to another.

    An amount that had to be raised was too little. Where that was known and it was a try, the next
    one waits twice as long. A try that lasted shows that less is enough now.
    """
    if after > before and not slew.is_try(before, timers):
        return replace(timers, too_little=before)
    if after > before:
        waited = timers.patience_seconds or exit_after_seconds
        longest = max(slew.MOST_PATIENCE_SECONDS, exit_after_seconds)
        return replace(timers, patience_seconds=min(2 * waited, longest))
    if after < before and slew.is_try(before, timers):
        return replace(timers, too_little=None)
    return timers


def forgotten(timers: Timers) -> Timers:
    """Return the timers once an overload is over: the next one is another."""
    return replace(timers, too_little=None, patience_seconds=0.0)


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _trail(
    trail: tuple[tuple[float, float], ...], pressure: Pressure
) -> tuple[tuple[float, float], ...]:
    """Add a newer sample; keep one that is as old as a trend needs, and those after it."""
    at, level = pressure.sampled_at(), pressure.level
    if at is None or level is None or pressure.has_gaps:
        return ()
    longer = (*trail, (at, level)) if not trail or at > trail[-1][0] else trail
    while len(longer) > 1 and at - longer[1][0] >= slew.TREND_SECONDS:
        longer = longer[1:]
    return longer
