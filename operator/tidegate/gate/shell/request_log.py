"""One log line for a request that is over; it holds no prompt, no answer, no key."""

import logging
from enum import StrEnum
from typing import Any

from tidegate.gate.exchange import Outcome
from tidegate.gate.shell.telemetry import outcome_of
from tidegate.gate.wire.observer import Finished

_LOG = logging.getLogger("tidegate.gate.requests")
_WELL = {Outcome.FINISHED, Outcome.CLIENT_GONE, Outcome.ENGINE_REFUSED}
_SERVER_ERROR = 500


class Which(StrEnum):
    """Which requests get a line: a refusal is counted anyway, and under overload there are many."""

    ALL = "all"
    FAILED = "failed"
    NONE = "none"


class RequestLog:
    """Writes the lines."""

    def __init__(self, which: Which) -> None:
        self._which = which

    def finished(self, request: Finished) -> None:
        """A request is over."""
        is_wanted = self._which is Which.ALL or (self._which is Which.FAILED and failed(request))
        if is_wanted:
            level = logging.WARNING if failed(request) else logging.INFO
            _LOG.log(level, "request", extra=_fields(request))


def failed(request: Finished) -> bool:
    """Tell whether a request got a seat and did not end well, by no fault of the client."""
    if request.outcome is None:
        return False
    return request.outcome not in _WELL or request.status >= _SERVER_ERROR


def _fields(request: Finished) -> dict[str, Any]:
    usage = request.usage
    fields: dict[str, Any] = {
        "requestId": request.request_id,
        "surface": request.surface,
        "model": request.model,
        "tenant": request.tenant,
        "class": request.priority,
        "status": request.status,
        "outcome": outcome_of(request),
        "reason": request.why and request.why.value,
        "pod": request.pod,
        "prefill": request.prefill,
        "revision": request.revision,
        "shiftedTo": request.shifted_to,
        "visits": request.visits,
        "promptTokens": usage.prompt_tokens if usage else request.prompt_tokens,
        "outputTokens": usage.output_tokens if usage else None,
        "queuedSeconds": _rounded(request.queued_seconds),
        "ttftSeconds": _rounded(request.ttft_seconds),
        "totalSeconds": _rounded(request.total_seconds),
    }
    return {key: value for key, value in fields.items() if value not in (None, "")}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
