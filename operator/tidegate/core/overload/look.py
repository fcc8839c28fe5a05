"""One tick of the loop where no lever holds: the state, the shares, and what is said of them."""

import math
from dataclasses import dataclass

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import caps, demand, missing, release, slew, words
from tidegate.core.overload.caps import Caps, Shares
from tidegate.core.overload.decision import Decision, State, Timers
from tidegate.core.overload.draft import Draft
from tidegate.core.overload.missing import Sight
from tidegate.core.overload.pressure import Pressure
from tidegate.core.overload.slew import Motion

DWELL_SECONDS = 30.0
"""A state lasts at least this long, whatever the signals do; gates protect meanwhile."""


def held(previous: Decision, now: float) -> Shares:
    """Return the shares that gates hold: none where they have lapsed."""
    if not previous.lasts(now):
        return Shares()
    return Shares(previous.shed_percent, previous.shift_percent)


@dataclass(frozen=True)
class Look:
    """What a tick goes by.

    Attributes:
        spec: `spec.overload`.
        motion: The signals against their thresholds, and the timers.
        previous: The last decision.
        held: The shares that gates hold now.
        bounds: How far they may go.
        to: Where requests are or would be shifted to; empty: nowhere.
    """

    spec: OverloadSpec
    motion: Motion
    previous: Decision
    held: Shares
    bounds: Caps
    to: str

    @property
    def now(self) -> float:
        """The time of the tick, seconds since 1970."""
        return self.motion.now

    @property
    def seen(self) -> Pressure:
        """The signals against their thresholds."""
        return self.motion.pressure

    @property
    def timers(self) -> Timers:
        """As they are at this tick."""
        return self.motion.timers

    def draft(self) -> Draft:
        """Return what the tick comes to."""
        state = self._state()
        shares = self._moved(state)
        reason = self._reason(state, shares)
        shows = state == "Overloaded"
        return Draft(
            state=state,
            shares=shares,
            to=self.to,
            reason=reason,
            message=self._message(reason, shares),
            until=self._until(shares),
            because=tuple(words.because(self.seen, self.bounds.why_no_room)) if shows else (),
            worst=self.seen.worst if shows else None,
        )

    @property
    def _sight(self) -> Sight:
        return missing.sight(self.spec, self.seen, self.timers.unknown_since, self.now)

    @property
    def _is_blind(self) -> bool:
        """Whether the gates' own cap protects alone: what is unknown counts no longer."""
        return self._sight == "CapAlone" and not self.seen.is_over

    @property
    def _is_of_a_lever(self) -> bool:
        """Whether what holds is what a lever has left: the loop's own shares end with its state."""
        return self.previous.state == "Normal" and self.held.total > 0

    def _state(self) -> State:
        was, over, under = self.previous.state, self.timers.over_since, self.timers.under_since
        is_over = over is not None and self.now - over >= self.spec.enter_after
        if was == "Override":
            return "Overloaded" if is_over else "Normal"
        if self.now - self.previous.since < DWELL_SECONDS:
            return was
        if was == "Normal":
            return "Overloaded" if is_over else "Normal"
        is_under = under is not None and self.now - under >= self.spec.exit_after
        lets_go = (is_under or self._is_blind) and not self.held.total
        return "Normal" if lets_go else "Overloaded"

    def _moved(self, state: State) -> Shares:
        motion, now, room = self.motion, self.bounds.kept, self._room(state)
        total = self._total(state, now.total, motion)
        if self._sight != "Held":
            total = min(total, slew.withdrawn(now.total, room.total, motion))
        is_still = self._sight == "Held" or not self.seen.known or not motion.may_step
        if total == now.total and is_still:
            return now
        return slew.moved(now, caps.divide(total, self.spec, room, now), total)

    def _room(self, state: State) -> Shares:
        """Return what each share may reach; where nothing is overloaded neither grows."""
        room = self.bounds.room if self.seen.known else self.bounds.most
        if state == "Normal":
            return Shares(min(room.shed, self.held.shed), min(room.shift, self.held.shift))
        return room

    def _total(self, state: State, total: int, motion: Motion) -> int:
        """Return the amount that is aimed at: shed and shifted together."""
        if state == "Overloaded" and self.seen.is_over:
            most, enough = min(100, self.bounds.most.total), release.borne_percent(self.timers)
            return slew.raised(total, most, enough, motion)
        if self.seen.is_over:
            return total
        if self._sight == "Held":
            return missing.released(total, motion) if self._is_of_a_lever else total
        if self._sight == "CapAlone" and not self.seen.known:
            return missing.released(total, motion)
        if state == "Normal" or self.seen.is_under:
            return slew.lowered(total, self._least(state, motion), motion)
        return total

    def _least(self, state: State, motion: Motion) -> int:
        """Return what the shares may not go below: more is not known to be borne.

        What a lever has left where nothing is overloaded goes back until signals reach `exit`.
        """
        if state == "Normal":
            return 0
        fits = demand.least_percent(motion)
        patience = release.patience_seconds(self.timers, self.spec.exit_after)
        if motion.under_seconds() >= patience:
            return fits
        return max(fits, release.borne_percent(self.timers))

    def _reason(self, state: State, shares: Shares) -> Reason:
        if self._is_blind or (state == "Normal" and not self.seen.known):
            return missing.reason(self.seen)
        if state == "Normal" and not shares.total:
            return Reason.WITHIN_THRESHOLDS if self.spec.actions else Reason.OVERLOAD_OFF
        if shares.total < self.held.total or state == "Normal":
            return Reason.LETTING_GO
        stays = shares.total == self.held.total and self.previous.state == state
        is_going = stays and self.previous.reason == Reason.LETTING_GO
        return Reason.LETTING_GO if is_going else Reason.OVER_THRESHOLD

    def _message(self, reason: Reason, shares: Shares) -> str:
        does = words.doing(shares, self.to)
        if reason == Reason.WITHIN_THRESHOLDS:
            return words.within(self.spec)
        if reason == Reason.OVERLOAD_OFF:
            return "spec.overload.actions is empty, so nothing is turned away or shifted"
        if reason == missing.reason(self.seen):
            protects = "the gates' own token cap protects, and " if self._is_blind else ""
            return f"{words.unknown(self.seen)}; {protects}{does}"
        worst = self.seen.worst
        return f"{words.standing(worst)}: {does}" if worst else does

    def _until(self, shares: Shares) -> float:
        """Return when the shares lapse: as before, until less than half of the time is left."""
        if not shares.total:
            return 0.0
        left, ttl_seconds = self.previous.until - self.now, self.motion.tick.ttl_seconds
        if ttl_seconds / 2 <= left <= ttl_seconds + 1:
            return self.previous.until
        return float(math.ceil(self.now + ttl_seconds))
