"""How the shares move: in bounded steps, up while it presses, down only when that can be borne.

Between `exit` and `enter` nothing moves. The amount that is aimed at is the pressure itself, so it
is a proportion and no switch. What makes a proportion stand still with data that are old, and with
an engine that needs seconds to answer to a change:

- no step before twice the age of the data has passed since the last one;
- not up while the pressure falls, not down while it rises: the last step is still at work;
- down only after `SETTLE_SECONDS` under `exit`, and not to where the load proved too much before,
  until signals were under `exit` for `exitAfter`, and twice as long after each vain try.
"""

import math
from dataclasses import dataclass

from tidegate.core.overload.caps import Shares
from tidegate.core.overload.decision import Tick, Timers
from tidegate.core.overload.pressure import Pressure

UP_PERCENT, DOWN_PERCENT = 20, 10
"""Points of a step at most: gates protect meanwhile, and what is given back may come as a wave."""
SETTLE_SECONDS = 10.0
"""Under `exit` for this long before a step down: some decodes end in it, and the load shows."""
TREND_SECONDS = 10.0
"""Two samples this far apart tell whether the pressure rises or falls."""
_TREND = 0.05
"""A smaller change of the pressure is noise: one percent of the KV cache by the defaults."""
_MARGIN = 0.1
"""What proved too much is not admitted again at once, but a tenth less."""
MOST_PATIENCE_SECONDS = 300.0
"""Before another try to let go, at most: so long shares may outlast a load that ended."""


@dataclass(frozen=True)
class Motion:
    """What a tick knows when it moves the shares.

    Attributes:
        pressure: The signals against their thresholds.
        timers: As they are at this tick.
        changed_at: When a share changed last.
        now: Seconds since 1970.
        exit_after_seconds: `spec.overload.exitAfter`.
        tick: How often the loop looks.
    """

    pressure: Pressure
    timers: Timers
    changed_at: float
    now: float
    exit_after_seconds: float
    tick: Tick

    @property
    def may_step(self) -> bool:
        """Tell whether the data can show what the last step has done."""
        sampled = self.pressure.sampled_at()
        age = max(0.0, self.now - sampled) if sampled is not None else 0.0
        return self.now - self.changed_at >= 2 * age

    @property
    def trend(self) -> float:
        """How the pressure has changed over the last seconds; 0 where that is too little to say."""
        level, trail = self.pressure.level, self.timers.trail
        if level is None or len(trail) < 2:
            return 0.0
        change = level - trail[0][1]
        return change if abs(change) > _TREND else 0.0

    def under_seconds(self) -> float:
        """Return for how long all signals have been under `exit` with the shares that hold."""
        since = self.timers.under_since
        return self.now - max(since, self.changed_at) if since is not None else 0.0


def raised(total: int, most: int, motion: Motion) -> int:
    """Return the amount of the next step up; the same where there is none to make."""
    level = motion.pressure.level
    if level is None or not motion.pressure.is_over or not motion.may_step or motion.trend < 0:
        return total
    step = total + UP_PERCENT
    if is_try(total, motion.timers):  # it was vain: back to what was enough, and no further
        step = min(step, safe_percent(motion.timers))
    return max(total, min(step, math.floor(100 * level), most))


def lowered(total: int, motion: Motion) -> int:
    """Return the amount of the next step down while all signals are under `exit`."""
    settle = max(SETTLE_SECONDS, motion.tick.scrape_interval_seconds)
    under = motion.under_seconds()
    if not motion.may_step or motion.trend > 0 or under < settle:
        return total
    step = max(0, total - _step_down(total))
    if is_try(total, motion.timers) or under >= patience_seconds(motion):
        return step
    return min(total, max(step, safe_percent(motion.timers)))


def _step_down(total: int) -> int:
    """Return the points of a step: what is admitted grows by half at most, and by one at least."""
    return max(1, min(DOWN_PERCENT, (100 - total) // 2))


def is_try(total: int, timers: Timers) -> bool:
    """Tell whether an amount is one that proved too little before."""
    return timers.too_little is not None and total <= timers.too_little


def patience_seconds(motion: Motion) -> float:
    """Return how long signals must be under `exit` before less than is safe is tried."""
    return motion.timers.patience_seconds or motion.exit_after_seconds


def safe_percent(timers: Timers) -> int:
    """Return the amount with which a tenth less is admitted than proved too much."""
    if timers.too_little is None:
        return 0
    return math.ceil(100 - (1 - _MARGIN) * (100 - timers.too_little))


def moved(now: Shares, wanted: Shares, most: Shares, total: int) -> Shares:
    """Move each share towards what is wanted by one step.

    Args:
        now: The shares that hold.
        wanted: Where they are to go.
        most: What they may not pass; a share above it falls at once.
        total: What both together may not grow beyond.
    """
    bounded = Shares(min(now.shed, most.shed), min(now.shift, most.shift))
    shed = _step(bounded.shed, wanted.shed)
    shift = _step(bounded.shift, wanted.shift)
    excess = shed + shift - total
    if excess > 0:  # a share that grows waits for the other, which is slower on its way down
        if shift > bounded.shift:
            shift = max(bounded.shift, shift - excess)
        elif shed > bounded.shed:
            shed = max(bounded.shed, shed - excess)
    return Shares(shed, shift)


def _step(now: int, wanted: int) -> int:
    return min(now + UP_PERCENT, max(now - DOWN_PERCENT, wanted))
