"""Conditions over time: `lastTransitionTime` moves only when a status does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.api.conditions import Condition, ConditionType, Status

MESSAGE_LIMIT = 4096


@dataclass(frozen=True)
class Verdict:
    """What a condition is to say."""

    type: ConditionType
    status: Status
    reason: str
    message: str


def merge(
    verdicts: Iterable[Verdict], previous: Sequence[Condition], generation: int, now: float
) -> list[Condition]:
    """Return the conditions; one whose status is as before keeps its time."""
    return [
        Condition(
            type=verdict.type,
            status=verdict.status,
            reason=verdict.reason,
            message=clipped(verdict.message, MESSAGE_LIMIT),
            observed_generation=generation,
            last_transition_time=_time_of(verdict, previous, now),
        )
        for verdict in verdicts
    ]


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return one condition, None where it is not told yet."""
    return next((entry for entry in conditions if entry.type == kind), None)


def seconds(condition: Condition) -> float | None:
    """Return when the condition's status last changed, in seconds since 1970."""
    return parse_time(condition.last_transition_time)


def parse_time(text: str | None) -> float | None:
    """Read an RFC 3339 time as seconds since 1970, None where it is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None
    except ValueError:
        return None


def format_time(now: float) -> str:
    """Write seconds since 1970 as RFC 3339, in whole seconds as Kubernetes does."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clipped(text: str, limit: int) -> str:
    """Cut a text that is too long, and show that it was."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _time_of(verdict: Verdict, previous: Sequence[Condition], now: float) -> str:
    before = find(previous, verdict.type)
    if before is not None and before.status == verdict.status:
        return before.last_transition_time
    return format_time(now)
