"""The gate's own answers, in the shapes that OpenAI's clients know.

Each is a status, headers and a body; length and connection are the wire's.
"""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import unquote

import orjson

from tidegate.api.gate_config import GateConfig
from tidegate.gate.core import offers
from tidegate.gate.core.headers import Header
from tidegate.gate.exchange import Refusal, Surface, Why

Reply = tuple[int, Sequence[Header], bytes]

_JSON = (b"content-type", b"application/json")
_CODES = {
    Why.TOO_LONG: "context_length_exceeded",
    Why.UNAUTHENTICATED: "invalid_api_key",
    Why.NOT_FOUND: "not_found",
}
"""Where OpenAI's own code differs from the reason: clients shorten a prompt on the first."""
_NOT_AGAIN = frozenset({Why.SHIFT_LOOP, Why.TOTAL_DEADLINE})
"""Answers of 500 and more that a second try gets again; OpenAI's SDKs heed the header."""


def refusal(said: Refusal, request_id: str) -> Reply:
    """Return the whole answer for a refusal."""
    told: list[Header] = [_JSON, (b"x-tidegate-reason", said.why.value.encode())]
    if request_id:
        told.append((b"x-request-id", request_id.encode()))
    if said.retry_after_seconds is not None:
        told.append((b"retry-after", b"%d" % said.retry_after_seconds))
    if said.allow is not None:
        told.append((b"allow", said.allow.encode()))
    if said.status == HTTPStatus.UNAUTHORIZED:
        told.append((b"www-authenticate", b"Bearer"))
    if said.why in _NOT_AGAIN:
        told.append((b"x-should-retry", b"false"))
    return said.status, told, error_body(said)


def error_body(said: Refusal) -> bytes:
    """Return the OpenAI error object of a refusal."""
    code = _CODES.get(said.why, said.why.value)
    if said.why is Why.NOT_FOUND and said.param == "model":
        code = "model_not_found"
    error = {"message": said.message, "type": said.kind, "param": said.param, "code": code}
    return orjson.dumps({"error": error})


def error_event(said: Refusal) -> bytes:
    """Return the event that ends a stream that broke; SDKs raise an error for it."""
    return b"data: %b\n\n" % error_body(said)


def models(config: GateConfig, path: str, request_id: str) -> Reply:
    """Return the list of models, or the one that the path names."""
    listed = [_model(each) for each in offers.models(config)]
    name = unquote(path.removeprefix(Surface.MODELS.value).removeprefix("/"))
    told = (_JSON, (b"x-request-id", request_id.encode()))
    if not name:
        return 200, told, orjson.dumps({"object": "list", "data": listed})
    for model in listed:
        if model["id"] == name:
            return 200, told, orjson.dumps(model)
    message = f"This model is not served here. Served: {', '.join(config.models)}."
    return refusal(Refusal(404, Why.NOT_FOUND, message, param="model"), request_id)


def _model(model: offers.Model) -> dict[str, str | int | None]:
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "tidegate",
        "root": model.root,
        "parent": None,
        "max_model_len": model.max_model_len,
    }
