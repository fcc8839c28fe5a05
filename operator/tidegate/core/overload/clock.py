"""A clock that has been set back, or a new leader whose clock is slower: what lies in the future.

Waited for, it would keep state and shares as they are for as long as the step was. So it counts as
of now: what was to last for a while lasts that while once more at most.
"""

import math
from dataclasses import replace

from tidegate.core.overload.decision import Decision, Timers
from tidegate.core.overload.samples import MOST_AHEAD_SECONDS


def stamp(now: float) -> float:
    """Return the time as decisions keep it: in whole seconds, as the status does."""
    return float(math.ceil(now))


def decided(previous: Decision, now: float) -> Decision:
    """Return a decision that was not made after now; the same one where it was not."""
    latest = stamp(now)
    if max(previous.since, previous.changed_at) <= latest:
        return previous
    return replace(
        previous, since=min(previous.since, latest), changed_at=min(previous.changed_at, latest)
    )


def remembered(timers: Timers, now: float) -> Timers:
    """Return timers that began by now; samples of the future are dropped, as they tell no trend."""
    bracket, pressed = timers.bracket, timers.pressed
    return replace(
        timers,
        over_since=_by(timers.over_since, now),
        under_since=_by(timers.under_since, now),
        unknown_since=_by(timers.unknown_since, now),
        trail=tuple(each for each in timers.trail if each[0] <= now + MOST_AHEAD_SECONDS),
        offered=tuple((min(at, now), value) for at, value in timers.offered),
        demands=tuple((min(at, now), value) for at, value in timers.demands),
        bracket=replace(bracket, raised_at=min(bracket.raised_at, now)) if bracket else None,
        shifted_at=min(timers.shifted_at, now),
        pressed=replace(pressed, at=min(pressed.at, now), eased_at=_by(pressed.eased_at, now))
        if pressed
        else None,
    )


def _by(since: float | None, now: float) -> float | None:
    return None if since is None else min(since, now)
