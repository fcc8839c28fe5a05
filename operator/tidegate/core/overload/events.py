"""Which changes of what the slow loop holds are worth an Event."""

from dataclasses import dataclass
from typing import Literal

from tidegate.api.overload_status import OverloadStatus
from tidegate.api.reasons import Reason

_CALM = (Reason.WITHIN_THRESHOLDS, Reason.LETTING_GO, Reason.OVERLOAD_OFF)


@dataclass(frozen=True)
class Event:
    """What an Event is to say."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


def between(before: OverloadStatus | None, after: OverloadStatus | None) -> Event | None:
    """Return the Event of a change, None where there is nothing to tell.

    A share that goes on in its direction is none: a change of state is, of the direction, of where
    requests are shifted, and of a person's lever. That nothing is known MetricsAvailable tells.
    """
    if after is None:
        return _let_go(before)
    if _course(before) == _course(after):
        return None
    if _refused(after):
        return Event("Warning", Reason.OVERRIDE_REFUSED, after.message)
    kind: Literal["Normal", "Warning"] = "Normal" if after.reason in _CALM else "Warning"
    return Event(kind, after.reason, after.message)


def _course(status: OverloadStatus | None) -> tuple[object, ...]:
    """Return what stays while the shares go on as they do."""
    if status is None:
        return ("Normal", False, False, None, None, None)
    return (
        status.state,
        status.shed_percent > 0,
        status.shift_percent > 0,
        status.shift_to,
        _refused(status),
        status.message if status.state == "Override" else _direction(status),
    )


def _refused(status: OverloadStatus) -> str | None:
    return status.override.refused if status.override else None


def _direction(status: OverloadStatus) -> str | None:
    return status.reason if status.shed_percent or status.shift_percent else None


def _let_go(before: OverloadStatus | None) -> Event | None:
    """Tell that a lever or shares ended with the loop, which has no Prometheus or gate any more."""
    if before is None or _course(before) == _course(None):
        return None
    return Event("Normal", Reason.WITHIN_THRESHOLDS, f"Let go of what held: {before.summary}.")
