"""How the shares move: in bounded steps, up while it presses, down only when that can be borne.

Between `exit` and `enter` nothing moves. The amount that is aimed at is the pressure itself, so it
is a proportion and no switch. What makes a proportion stand still with data that are old, with an
engine that needs seconds to answer to a change, and with queues that are full or empty:

- no step before twice the age of the data has passed since the last one;
- not up while the pressure falls, not down while it rises: the last step is still at work;
- a new excess under shares that hold must last, and raises them by less: it may be chance;
- down only after `SETTLE_SECONDS` under `exit`, and only as far as caches (`demand`) and what was
  found out about queues (`release`) say that it can be borne.
"""

import math
from dataclasses import dataclass

from tidegate.core.overload.caps import LEAST_PERCENT, Shares
from tidegate.core.overload.decision import Tick, Timers
from tidegate.core.overload.pressure import Pressure

UP_PERCENT, DOWN_PERCENT = 20, 10
"""Points of a step at most: gates protect meanwhile, and what is given back may come as a wave."""
AGAIN_PERCENT = 10
"""Points of the first step of a new excess at most."""
STEP_SECONDS = 4.0
"""From one step to the next at least, for an engine to answer; a tick of 5 s, less its jitter."""
SETTLE_SECONDS = 10.0
"""Under `exit` for this long before a step down: some decodes end in it, and the load shows."""
TREND_SECONDS = 10.0
"""Two samples this far apart tell whether the pressure rises or falls."""
_TREND = 0.05
"""A smaller change of the pressure is noise: one percent of the KV cache by the defaults."""


@dataclass(frozen=True)
class Motion:
    """What a tick knows when it moves the shares.

    Attributes:
        pressure: The signals against their thresholds.
        timers: As they are at this tick.
        changed_at: When a share changed last.
        now: Seconds since 1970.
        enter_after_seconds: `spec.overload.enterAfter`.
        tick: How often the loop looks.
    """

    pressure: Pressure
    timers: Timers
    changed_at: float
    now: float
    enter_after_seconds: float
    tick: Tick

    @property
    def may_step(self) -> bool:
        """Tell whether the data can show what the last step has done."""
        sampled = self.pressure.sampled_at()
        age = max(0.0, self.now - sampled) if sampled is not None else 0.0
        return self.now - self.changed_at >= max(STEP_SECONDS, 2 * age)

    @property
    def settle_seconds(self) -> float:
        """How long a step is waited for to show."""
        return max(SETTLE_SECONDS, self.tick.scrape_interval_seconds)

    @property
    def trend(self) -> float:
        """How the pressure has changed over the last seconds; 0 where that is too little to say."""
        height, trail = self.pressure.height, self.timers.trail
        if height is None or len(trail) < 2:
            return 0.0
        change = height - trail[0][1]
        return change if abs(change) > _TREND else 0.0

    @property
    def is_new_excess(self) -> bool:
        """Tell whether signals have been under `enter` since the last step."""
        since = self.timers.over_since
        return since is not None and since > self.changed_at

    @property
    def has_lasted(self) -> bool:
        """Tell whether an excess has been sampled for `enterAfter`: a single sample never has."""
        since, sampled = self.timers.over_since, self.pressure.sampled_at()
        if since is None or sampled is None:
            return False
        return sampled - since >= self.enter_after_seconds

    def under_seconds(self) -> float:
        """Return for how long all signals have been under `exit` with the shares that hold."""
        since = self.timers.under_since
        return self.now - max(since, self.changed_at) if since is not None else 0.0


def raised(total: int, most: int, enough: int, motion: Motion) -> int:
    """Return the amount of the next step up; the same where there is none to make.

    Args:
        total: The amount that holds.
        most: What it may not pass.
        enough: What is known to be enough; a step from below it goes no further.
        motion: What the tick knows.
    """
    level = motion.pressure.level
    if level is None or not motion.pressure.is_over or not motion.may_step or motion.trend < 0:
        return total
    step = total + _step_up(total)
    if total < enough:
        step = min(step, enough)
    asked = math.floor(100 * level)
    step = min(step, asked, most)
    if not total:
        return step
    if motion.is_new_excess:  # under shares that hold: it may be chance
        step = min(step, total + AGAIN_PERCENT) if motion.has_lasted else total
    is_little = step == asked < most and asked - total < LEAST_PERCENT
    return total if is_little else max(total, step)


def lowered(total: int, least: int, motion: Motion) -> int:
    """Return the amount of the next step down while all signals are under `exit`.

    Args:
        total: The amount that holds.
        least: What can be borne.
        motion: What the tick knows.
    """
    if not motion.may_step or motion.trend > 0 or motion.under_seconds() < motion.settle_seconds:
        return total
    most = _step_down(total)
    step = min(most, total - least)
    is_little = step < min(most, LEAST_PERCENT) and least > 0
    return total if is_little else max(0, total - step)


def withdrawn(total: int, most: int, motion: Motion) -> int:
    """Return the amount of the next step down to what may be reached; that itself where it may.

    It goes whatever the signals say: the bound is the user's, or another deployment's.
    """
    is_settled = motion.now - motion.changed_at >= motion.settle_seconds
    if total <= most or not (is_settled and motion.may_step):
        return max(total, most)
    return max(most, total - _step_down(total))


def _step_up(total: int) -> int:
    """Return the points of a step: what is admitted is halved at most."""
    return max(1, min(UP_PERCENT, (100 - total) // 2))


def _step_down(total: int) -> int:
    """Return the points of a step: what is admitted grows by half at most, and by one at least."""
    return max(1, min(DOWN_PERCENT, (100 - total) // 2))


def moved(now: Shares, wanted: Shares, total: int) -> Shares:
    """Move each share towards what is wanted by one step.

    Args:
        now: The shares that hold.
        wanted: Where they are to go.
        total: What both together may not grow beyond.
    """
    shed = _step(now.shed, wanted.shed)
    shift = _step(now.shift, wanted.shift)
    excess = shed + shift - total
    if excess > 0:  # a share that grows waits for the other, which is slower on its way down
        if shift > now.shift:
            shift = max(now.shift, shift - excess)
        elif shed > now.shed:
            shed = max(now.shed, shed - excess)
    return Shares(shed, shift)


def _step(now: int, wanted: int) -> int:
    return min(now + UP_PERCENT, max(now - DOWN_PERCENT, wanted))
