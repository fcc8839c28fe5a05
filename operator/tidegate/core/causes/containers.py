"""The engine's container in a Pod document: its states as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.core.names import ENGINE_CONTAINER


@dataclass(frozen=True)
class Termination:
    """One end of the container; None where a time is not told.

    `seconds` is how long it ran, `finished_at` is in seconds since 1970.
    """

    exit_code: int
    reason: str
    container_id: str
    seconds: float | None
    finished_at: float | None = None


@dataclass(frozen=True)
class Engine:
    """The engine's container now: why it waits, how it ended now, how it ended before."""

    restarts: int
    is_ready: bool
    waiting_reason: str | None
    waiting_message: str
    ended: Termination | None
    ended_before: Termination | None

    @property
    def last_end(self) -> Termination | None:
        """The latest end, whether it was restarted since or not."""
        return self.ended or self.ended_before


def read(pod: Mapping[str, Any]) -> Engine | None:
    """Return the state of the engine's container, None before the kubelet has reported one."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    for status in statuses:
        if status.get("name") == ENGINE_CONTAINER:
            state, last = status.get("state") or {}, status.get("lastState") or {}
            waiting = state.get("waiting") or {}
            return Engine(
                restarts=int(status.get("restartCount") or 0),
                is_ready=bool(status.get("ready")),
                waiting_reason=waiting.get("reason") if waiting else None,
                waiting_message=waiting.get("message") or "",
                ended=_termination(state.get("terminated")),
                ended_before=_termination(last.get("terminated")),
            )
    return None


def spec(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of the engine's container, empty where there is none."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    found: Mapping[str, Any] = next(
        (entry for entry in containers if entry.get("name") == ENGINE_CONTAINER), {}
    )
    return found


def startup_seconds(pod: Mapping[str, Any]) -> float | None:
    """Return how long the startup probe waits before the kubelet gives up, None without one."""
    probe = spec(pod).get("startupProbe")
    if not probe:
        return None
    period, failures = probe.get("periodSeconds", 10), probe.get("failureThreshold", 3)
    return float(probe.get("initialDelaySeconds", 0) + period * failures)


def _termination(state: Mapping[str, Any] | None) -> Termination | None:
    if not state:
        return None
    started, finished = _time(state.get("startedAt")), _time(state.get("finishedAt"))
    return Termination(
        exit_code=int(state.get("exitCode", 0)),
        reason=state.get("reason") or "",
        container_id=state.get("containerID") or "",
        seconds=(finished - started).total_seconds() if started and finished else None,
        finished_at=finished.timestamp() if finished else None,
    )


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
    except ValueError:
        return None
