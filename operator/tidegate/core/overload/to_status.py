"""The decision as `status.overload` shows it, and back again after a restart of the operator."""

from tidegate.api.overload_spec import OverrideSpec
from tidegate.api.overload_status import OverloadStatus, OverrideStatus, ReactionStatus
from tidegate.api.quantities import parse_duration, spell_duration
from tidegate.api.reasons import Reason
from tidegate.core.overload.decision import Decision
from tidegate.core.overload.signal import Signal
from tidegate.core.status.conditions import clipped, format_time, parse_time

_LINE, _MOST_STEPS, _REASON, _NAME = 1024, 16, 256, 512


def make(
    decision: Decision,
    lever: OverrideSpec | None = None,
    reaction: ReactionStatus | None = None,
) -> OverloadStatus:
    """Return the status of a decision.

    Args:
        decision: What holds.
        lever: `spec.overload.override`; None where there is none.
        reaction: What `floor.reaction` says of the plan.
    """
    age = decision.metric_age_seconds
    return OverloadStatus(
        summary=summary(decision),
        state=decision.state,
        shed_percent=decision.shed_percent,
        shift_percent=decision.shift_percent,
        shift_to=decision.shift_to or None,
        reason=str(decision.reason),
        message=clipped(decision.message, _LINE),
        because=[clipped(line, _LINE) for line in decision.because[:_MOST_STEPS]],
        signal=str(decision.signal) if decision.signal else None,
        pool=decision.pool,
        value=f"{decision.value:g}" if decision.value is not None else None,
        metric_age=spell_duration(age) if age is not None else None,
        since=_time(decision.since),
        changed_at=_time(decision.changed_at),
        until=_time(decision.until),
        override=_lever(lever, decision),
        reaction=reaction,
    )


def restore(status: OverloadStatus | None) -> Decision:
    """Return the decision that a status was made of; the first one where there is no status."""
    if status is None:
        return Decision()
    return Decision(
        state=status.state,
        shed_percent=status.shed_percent,
        shift_percent=status.shift_percent,
        shift_to=status.shift_to or "",
        reason=_reason(status.reason),
        message=status.message,
        because=tuple(status.because),
        signal=_signal(status.signal),
        pool=status.pool,
        value=_number(status.value),
        metric_age_seconds=_seconds(status.metric_age),
        since=parse_time(status.since) or 0.0,
        changed_at=parse_time(status.changed_at) or 0.0,
        until=parse_time(status.until) or 0.0,
        refused=(status.override.refused if status.override else None) or "",
    )


def summary(decision: Decision) -> str:
    """Say state and shares in a few words: `Normal`, `shed 20%`, `override: shift 30%`."""
    shares = [
        f"{name} {percent}%"
        for name, percent in (("shift", decision.shift_percent), ("shed", decision.shed_percent))
        if percent
    ]
    if decision.state == "Override":
        return f"override: {', '.join(shares) or 'open'}"
    if decision.refused:
        return ", ".join(("override: shift refused", *shares))
    return ", ".join(shares) or decision.state


def _lever(lever: OverrideSpec | None, decision: Decision) -> OverrideStatus | None:
    if lever is None or not (decision.state == "Override" or decision.refused):
        return None
    return OverrideStatus(
        action=lever.action,
        until=format_time(lever.until.timestamp()),
        reason=clipped(lever.reason, _REASON),
        set_by=clipped(lever.set_by or "", _NAME),
        refused=clipped(decision.refused, _LINE) or None,
    )


def _time(seconds: float) -> str | None:
    return format_time(seconds) if seconds else None


def _reason(text: str) -> Reason:
    """Read a reason; one that another version wrote is decided anew."""
    try:
        return Reason(text)
    except ValueError:
        return Reason.WITHIN_THRESHOLDS


def _signal(text: str | None) -> Signal | None:
    try:
        return Signal(text) if text else None
    except ValueError:
        return None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _seconds(text: str | None) -> float | None:
    try:
        return parse_duration(text) if text else None
    except ValueError:
        return None
