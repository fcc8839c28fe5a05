"""Faults that strike a running engine and pass again, as `PUT /double/faults` says.

`DOUBLE_FAIL` decides at the start of a process and once; these come and go while clients stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from e2e.double.api_errors import EngineDead, invalid

NONE = ""
HANG = "hang"
AMID_A_STREAM = ("broken-chunk", "half-event", "stall", "reset", "death")
ABORT = "abort"
IN_PLACE_OF_AN_ANSWER = (HANG, ABORT, "status", "html")
ON_METRICS = ("gone", "status", "html", "slow", "huge", "foreign", "nan")
CHUNKS_BEFORE = 2
"""A stream breaks after so many chunks that are well."""
SLOW_SECONDS = 10.0
HUGE_BYTES = 2 * 2**20
PAGE = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True)
class Faults:
    """What goes wrong now.

    Attributes:
        answers: one of `IN_PLACE_OF_AN_ANSWER` or `AMID_A_STREAM`; empty for none.
        metrics: one of `ON_METRICS`; empty for none.
    """

    answers: str = NONE
    metrics: str = NONE

    @property
    def replaces_answers(self) -> bool:
        """Whether requests get something else than an answer."""
        return self.answers in IN_PLACE_OF_AN_ANSWER

    @property
    def breaks_streams(self) -> bool:
        """Whether streams begin well and break."""
        return self.answers in AMID_A_STREAM


def read(document: Mapping[str, object]) -> Faults:
    """Read the document that sets them; what it does not name is well.

    Raises:
        ApiError: 400, with the field and what it may be.
    """
    known = {"answers": (*IN_PLACE_OF_AN_ANSWER, *AMID_A_STREAM), "metrics": ON_METRICS}
    for field, value in document.items():
        if field not in known:
            raise invalid("extra_forbidden", f"body.{field}", f"known: {sorted(known)}", value)
        if value not in (NONE, *known[field]):
            raise invalid("enum", f"body.{field}", f"may be: {list(known[field])}", value)
    told = {field: str(value) for field, value in document.items()}
    return Faults(**told)


async def answer(fault: str, ended: asyncio.Event) -> web.StreamResponse:
    """Answer a request as the fault has it, in place of the engine; `ended` ends a hang."""
    if fault == HANG:
        await ended.wait()
    if fault == "html":
        return web.Response(text=PAGE, content_type="text/html")
    return web.json_response(EngineDead().body(), status=500)


async def break_off(
    fault: str, request: web.Request, stream: web.StreamResponse, ended: asyncio.Event
) -> None:
    """Break a stream that has begun."""
    transport = request.transport
    if transport is None:  # the client was quicker
        return
    match fault:
        case "broken-chunk":
            transport.write(b"zz\r\nno chunk at all\r\n")
            await ended.wait()
        case "half-event":
            await stream.write(b'data: {"id": "cmpl-')
            transport.close()
        case "stall":
            await stream.write(b'data: {"id": "cmpl-')
            await ended.wait()
        case "death":
            await stream.write(f"data: {json.dumps(EngineDead().body())}\n\n".encode())
            await stream.write(b"data: [DONE]\n\n")
            await stream.write_eof()
        case "reset":
            transport.abort()


async def page(fault: str, healthy: Callable[[], str], ended: asyncio.Event) -> web.Response:
    """Return `/metrics` as the fault has it; `healthy` makes the page of an engine that is well."""
    match fault:
        case "gone":
            return web.json_response({"detail": "Not Found"}, status=404)
        case "status":
            return web.Response(text="Internal Server Error", status=500)
        case "html":
            return web.Response(text=PAGE, content_type="text/html")
        case "huge":
            return web.Response(text="# much ado\n" * (HUGE_BYTES // 11))
        case "slow":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SLOW_SECONDS):
                    await ended.wait()
        case "foreign":
            return web.Response(text=healthy().replace("vllm:", "engine_v9_"))
        case "nan":
            return web.Response(text=_without_numbers(healthy()))
    return web.Response(text=healthy())


def _without_numbers(text: str) -> str:
    """Put NaN in the place of each sample."""
    lines = text.splitlines()
    told = (one if one.startswith("#") else f"{one.rpartition(' ')[0]} NaN" for one in lines)
    return "\n".join(told) + "\n"
