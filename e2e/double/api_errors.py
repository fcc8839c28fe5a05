"""The error answers of vLLM's HTTP server."""

from __future__ import annotations

from typing import Any

DEAD_MESSAGE = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class ApiError(Exception):
    """A request is answered with an error body."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """Return the JSON of the answer."""
        fields = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status,
        }
        return {"error": fields}


class EngineDead(ApiError):
    """The engine behind the server died."""

    def __init__(self) -> None:
        super().__init__(500, "InternalServerError", DEAD_MESSAGE)


def bad_request(message: str, param: str | None = None, value: object = None) -> ApiError:
    """Return a refusal of vLLM's own checks."""
    given = [] if param is None else [f"parameter={param}"]
    given += [] if value is None else [f"value={value}"]
    text = f"{message} ({', '.join(given)})" if given else message
    return ApiError(400, "BadRequestError", text, param)


def invalid(kind: str, place: str, problem: str, given: object, context: str = "") -> ApiError:
    """Return a refusal of the request's schema."""
    shown = given if isinstance(given, str | int | float | bool | None) else _sketch(given)
    detail: dict[str, object] = {"type": kind, "loc": place, "msg": problem, "input": shown}
    if context:
        detail["ctx"] = {"error": context}
    return ApiError(400, "Bad Request", f"1 validation error:\n  {detail}", place)


def internal_error() -> ApiError:
    """Return the answer to a request that failed inside a living engine."""
    return ApiError(500, "InternalServerError", "Internal server error")


def overloaded(reason: str) -> ApiError:
    """Return the refusal of a queue limit."""
    what = {
        "max_num_queued_reqs": "is currently busy and cannot accept new requests.",
        "max_num_queued_tokens": "has reached its prefill token backlog limit.",
    }[reason]
    message = f"The engine {what} Please try again later or on a different instance."
    return ApiError(503, "Service Unavailable", message)


def _sketch(value: object) -> str:
    size = len(value) if isinstance(value, list | dict) else 0
    return f"<{type(value).__name__} of {size} items>"
