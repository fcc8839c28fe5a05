"""What the slow loop does about a deployment: from its spec, signals and past to its shares.

Pure: the same input gives the same decision. See docs/concepts/overload.md.
"""

import math
from dataclasses import dataclass, replace

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import caps, lever, missing, pressure, slew, timers, words
from tidegate.core.overload.caps import Caps, Shares
from tidegate.core.overload.decision import Decision, Headroom, State, Tick, Timers
from tidegate.core.overload.lever import target
from tidegate.core.overload.missing import Sight
from tidegate.core.overload.pressure import Known, Pressure
from tidegate.core.overload.signal import Signals
from tidegate.core.overload.slew import Motion

__all__ = ["DWELL_SECONDS", "decide", "target"]

DWELL_SECONDS = 30.0
"""A state lasts at least this long, whatever the signals do; gates protect meanwhile."""
_LONGEST = 1024
_NO_NUMBERS = (Reason.WITHIN_THRESHOLDS, Reason.OVERLOAD_OFF, Reason.OVERRIDE_ACTIVE)
"""Reasons whose message follows from the spec alone: another message is another spec."""


def decide(
    spec: OverloadSpec,
    signals: Signals,
    headroom: Headroom | None,
    previous: Decision,
    remembered: Timers,
    now: float,
    tick: Tick,
) -> tuple[Decision, Timers]:
    """Return what holds from now on, and what to remember; the same value while nothing happens.

    Args:
        spec: `spec.overload`.
        signals: What is known of the deployment's pools; empty where nothing is.
        headroom: What the deployment `target(spec, now)` can take; None where that is unknown.
        previous: The last decision, or what `restore` made of the status.
        remembered: What the last decision left to remember.
        now: Seconds since 1970.
        tick: How often this is asked, at data how old.
    """
    seen = pressure.read(spec, signals)
    kept = timers.advanced(remembered, seen, now)
    to = target(spec, now)
    by = lever.held(spec, now)
    if by is not None:
        shares, why_not = lever.shares(by, to, headroom)
        draft = _Draft("Override", shares, Reason.OVERRIDE_ACTIVE)
        message = words.lever(by, shares, to, why_not)
        # A while longer at the gates: what a lever kept out is given back in steps, too.
        lapses = float(math.ceil(by.until.timestamp() + tick.ttl_seconds))
        return _told(draft, message, (), to, previous, now, lapses), kept
    look = _Look(spec, seen, kept, previous, now, tick)
    bounds = caps.caps(spec, to, headroom, look.shares(to))
    draft = look.draft(to, bounds)
    if draft.state == "Normal" and not draft.shares.total:
        kept = timers.forgotten(kept)
    before = look.shares(to).total
    kept = timers.learned(kept, before, draft.shares.total, spec.exit_after)
    message = look.message(draft, to)
    steps = tuple(words.because(seen, bounds.why_no_room, ()))
    until = look.until(draft.shares)
    return _told(draft, message, steps, to, previous, now, until, seen.worst), kept


@dataclass(frozen=True)
class _Draft:
    """What is decided, before it is put into words and set against what was."""

    state: State
    shares: Shares
    reason: Reason


@dataclass(frozen=True)
class _Look:
    """One tick of the loop without a lever."""

    spec: OverloadSpec
    seen: Pressure
    timers: Timers
    previous: Decision
    now: float
    tick: Tick

    @property
    def sight(self) -> Sight:
        return missing.sight(self.spec, self.seen, self.timers.unknown_since, self.now)

    def shares(self, to: str) -> Shares:
        """Return the shares that gates hold now: none where they have lapsed."""
        was = self.previous
        if was.until and self.now >= was.until:
            return Shares()
        return Shares(was.shed_percent, was.shift_percent if was.shift_to == to else 0)

    def draft(self, to: str, bounds: Caps) -> _Draft:
        held = self.shares(to)
        state = self._state(held)
        shares = self._moved(state, held, bounds)
        return _Draft(state, shares, self._reason(state, held, shares))

    def _state(self, held: Shares) -> State:
        was = self.previous.state
        over, under = self.timers.over_since, self.timers.under_since
        is_over = over is not None and self.now - over >= self.spec.enter_after
        if was == "Override":
            return "Overloaded" if is_over else "Normal"
        if self.now - self.previous.since < DWELL_SECONDS:
            return was
        if was == "Normal":
            return "Overloaded" if is_over else "Normal"
        is_under = under is not None and self.now - under >= self.spec.exit_after
        lets_go = is_under or (self.sight == "CapAlone" and not self.seen.is_over)
        return "Normal" if lets_go and not held.total else "Overloaded"

    def _moved(self, state: State, held: Shares, bounds: Caps) -> Shares:
        motion = Motion(
            self.seen,
            self.timers,
            self.previous.changed_at,
            self.now,
            self.spec.exit_after,
            self.tick,
        )
        most = min(100, bounds.most.total)
        total = self._total(state, min(held.total, most), most, motion)
        is_blind = self.sight == "Held" or not self.seen.known
        if total == held.total and (is_blind or not motion.may_step):
            return slew.moved(held, held, bounds.most, total)
        wanted = caps.divide(total, self.spec, bounds.room if self.seen.known else bounds.most)
        return slew.moved(held, wanted, bounds.most, total)

    def _total(self, state: State, total: int, most: int, motion: Motion) -> int:
        """Return the amount that is aimed at: shed and shifted together."""
        if state == "Overloaded" and self.seen.is_over:
            return slew.raised(total, most, motion)
        if self.sight == "Held" or self.seen.is_over:
            return total
        if self.sight == "CapAlone" and not self.seen.known:
            return missing.released(total, motion)
        if state == "Normal" or self.seen.is_under:
            return slew.lowered(total, motion)
        return total

    def _reason(self, state: State, held: Shares, shares: Shares) -> Reason:
        if self.sight == "CapAlone" and not self.seen.is_over:
            return missing.reason(self.seen)
        if state == "Normal" and not shares.total:
            return Reason.WITHIN_THRESHOLDS if self.spec.actions else Reason.OVERLOAD_OFF
        if shares.total < held.total or state == "Normal":
            return Reason.LETTING_GO
        stays = shares.total == held.total and self.previous.state == state
        is_going = stays and self.previous.reason == Reason.LETTING_GO
        return Reason.LETTING_GO if is_going else Reason.OVER_THRESHOLD

    def message(self, draft: _Draft, to: str) -> str:
        does = words.doing(draft.shares, to)
        if draft.reason == Reason.WITHIN_THRESHOLDS:
            return words.within(self.spec)
        if draft.reason == Reason.OVERLOAD_OFF:
            return "spec.overload.actions is empty, so nothing is turned away or shifted"
        if self.sight == "CapAlone" and not self.seen.is_over:
            why = words.unknown(self.seen)
            return f"{why}; the gates' own token cap protects, and {does}"
        worst = self.seen.worst
        return f"{words.standing(worst)}: {does}" if worst else does

    def until(self, shares: Shares) -> float:
        """Return when the shares lapse: as before, until less than half of the time is left."""
        if not shares.total:
            return 0.0
        left = self.previous.until - self.now
        if self.tick.ttl_seconds / 2 <= left <= self.tick.ttl_seconds + 1:
            return self.previous.until
        return float(math.ceil(self.now + self.tick.ttl_seconds))


def _told(
    draft: _Draft,
    message: str,
    because: tuple[str, ...],
    to: str,
    previous: Decision,
    now: float,
    until: float,
    worst: Known | None = None,
) -> Decision:
    """Return the decision: the previous one itself where nothing but values has changed."""
    stamp = float(math.ceil(now))
    shares, shows = draft.shares, worst is not None and draft.state == "Overloaded"
    made = Decision(
        state=draft.state,
        shed_percent=shares.shed,
        shift_percent=shares.shift,
        shift_to=to if shares.shift else "",
        reason=draft.reason,
        message=message[:_LONGEST],
        because=because if shows else (),
        signal=worst.signal if worst and shows else None,
        pool=worst.pool if worst and shows else None,
        value=round(worst.sample.value, 3) if worst and shows else None,
        metric_age_seconds=(round(max(0.0, now - worst.sample.at), 1) if worst and shows else None),
        since=stamp if draft.state != previous.state else previous.since,
        until=until,
    )
    moved = _shares(made) != _shares(previous)
    made = replace(made, changed_at=stamp if moved else previous.changed_at)
    return previous if _is_same(made, previous) else made


def _shares(of: Decision) -> tuple[int, int, str]:
    return of.shed_percent, of.shift_percent, of.shift_to


def _is_same(made: Decision, previous: Decision) -> bool:
    """Compare what is decided; what was measured moves all the time."""
    said = made.message == previous.message or made.reason not in _NO_NUMBERS
    return said and (made.state, _shares(made), made.reason, made.until) == (
        previous.state,
        _shares(previous),
        previous.reason,
        previous.until,
    )
