"""What a tick comes to, and whether that is news: an equal decision is the previous one itself."""

from dataclasses import dataclass, replace

from tidegate.api.reasons import Reason
from tidegate.core.overload import clock
from tidegate.core.overload.caps import Shares
from tidegate.core.overload.decision import Decision, State
from tidegate.core.overload.pressure import Known

_LONGEST = 1024
_NO_NUMBERS = (Reason.WITHIN_THRESHOLDS, Reason.OVERLOAD_OFF, Reason.OVERRIDE_ACTIVE)
"""Reasons whose message follows from the spec alone: another message is another spec."""


@dataclass(frozen=True)
class Draft:
    """What is decided, before it is set against what was.

    Attributes:
        state: Whether a pool is overloaded, or a lever holds.
        shares: What is turned away and shifted.
        to: Where requests are shifted to, if any are.
        reason: A documented constant.
        message: A sentence with the numbers.
        until: When the shares lapse, seconds since 1970; 0 where there are none.
        because: The steps of the reasoning.
        worst: The signal that decided; None where none did.
        refused: Why a lever that is set is not carried out; empty where none is refused.
    """

    state: State
    shares: Shares
    to: str
    reason: Reason
    message: str
    until: float
    because: tuple[str, ...] = ()
    worst: Known | None = None
    refused: str = ""


def settled(draft: Draft, previous: Decision, now: float) -> Decision:
    """Return the decision; the previous one where nothing but measured values has changed."""
    stamp = clock.stamp(now)
    made = _with_signal(
        Decision(
            state=draft.state,
            shed_percent=draft.shares.shed,
            shift_percent=draft.shares.shift,
            shift_to=draft.to if draft.shares.shift else "",
            reason=draft.reason,
            message=draft.message[:_LONGEST],
            because=draft.because,
            since=stamp if draft.state != previous.state else previous.since,
            until=draft.until,
            refused=draft.refused,
        ),
        draft.worst,
        now,
    )
    has_moved = _shares(made) != _shares(previous)
    made = replace(made, changed_at=stamp if has_moved else previous.changed_at)
    return previous if _is_same(made, previous) else made


def _with_signal(decision: Decision, worst: Known | None, now: float) -> Decision:
    if worst is None:
        return decision
    return replace(
        decision,
        signal=worst.signal,
        pool=worst.pool,
        value=round(worst.sample.value, 3),
        metric_age_seconds=round(max(0.0, now - worst.sample.at), 1),
    )


def _shares(of: Decision) -> tuple[int, int, str]:
    return of.shed_percent, of.shift_percent, of.shift_to


def _is_same(made: Decision, previous: Decision) -> bool:
    """Compare what is decided; what was measured moves all the time."""
    said = made.message == previous.message or made.reason not in _NO_NUMBERS
    return said and (made.state, _shares(made), made.reason, made.until, made.refused) == (
        previous.state,
        _shares(previous),
        previous.reason,
        previous.until,
        previous.refused,
    )
