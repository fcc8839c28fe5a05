"""Requests that are over, for tests of what is told of them."""

from tidegate.gate.exchange import Outcome, Usage
from tidegate.gate.wire.observer import Finished

_GOOD = {
    "request_id": "r-1",
    "surface": "/v1/completions",
    "model": "qwen",
    "tenant": "team-a",
    "priority": 5,
    "status": 200,
    "why": None,
    "outcome": Outcome.FINISHED,
    "pod": "engine-1",
    "prefill": "",
    "revision": "aaaa",
    "shifted_to": "",
    "streamed": True,
    "visits": 1,
    "prompt_tokens": 120,
    "usage": Usage(prompt_tokens=100, output_tokens=20, cached_tokens=16),
    "body_bytes": 400,
    "answer_bytes": 900,
    "queued_seconds": 0.0,
    "ttft_seconds": 0.2,
    "total_seconds": 1.5,
    "traceparent": "",
}


def finished(**changes) -> Finished:
    """A request that ended well, but for the changes."""
    return Finished(**{**_GOOD, **changes})
