"""`/v1/responses`: its events say how an answer ended, and no end is taken for a good one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gate.engine import STREAM_HEAD, Engine, answers, chunk, then_resets, whole
from tests.gate.running import ask, post, running

from tidegate.gate.exchange import Outcome, Usage
from tidegate.gate.wire import events

ASK = {"stream": True, "input": "hello"}
USAGE = {"input_tokens": 7, "output_tokens": 3}


def said(kind: str, *, named: bool = True, **fields: Any) -> bytes:
    """Write an event as vLLM does, its type last."""
    body = json.dumps({**fields, "type": kind}, separators=(",", ":"))
    name = f"event: {kind}\n" if named else ""
    return f"{name}data: {body}\n\n".encode()


def ended(kind: str, **response: Any) -> bytes:
    return said(kind, response={"usage": USAGE, **response})


def stream(*parts: bytes, ends: bool = True) -> Any:
    last = (b"0\r\n\r\n",) if ends else ()
    return answers(STREAM_HEAD, *(chunk(part) for part in parts), *last)


BEGUN = said("response.created", response={"status": "in_progress"})
DELTA = said("response.output_text.delta", delta='see "response.completed" and\nevent: x')

WELL = {
    "completed": ended("response.completed", status="completed", error=None),
    "cut at its limit": ended(
        "response.incomplete",
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    ),
    "without names": said("response.completed", named=False, response={"usage": USAGE}),
}
BADLY = {
    "no end": b"",
    "failed": ended("response.failed", status="failed", error={"code": "server_error"}),
    "stopped": ended("response.completed", status="cancelled"),
    "an error": said("error", message="the engine died"),
    "a text that looks like an end": said(
        "response.output_text.delta", delta='\nevent: response.completed\n"response.completed"'
    ),
}


@pytest.mark.parametrize("end", WELL.values(), ids=WELL)
async def test_a_response_that_ended_well_is_passed_on_as_it_is(end: bytes) -> None:
    async with Engine(stream(BEGUN, DELTA, end)) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/responses", **ASK))
        await gate.settled()
    assert (answer.body, answer.is_complete) == (BEGUN + DELTA + end, True)
    assert gate.seats.ends == [(engine.pod, Outcome.FINISHED, Usage(7, 3))]


@pytest.mark.parametrize("end", BADLY.values(), ids=BADLY)
async def test_a_response_that_did_not_is_broken_for_the_client_and_the_ledger(end: bytes) -> None:
    async with Engine(stream(BEGUN, DELTA, DELTA, end)) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/responses", **ASK))
        await gate.settled()
    assert not answer.is_complete
    assert answer.body.startswith(BEGUN + DELTA)
    assert b"error" in answer.body.rstrip().rsplit(b"\n\n", 1)[-1]
    assert [outcome for _, outcome, _ in gate.seats.ends] == [Outcome.ENGINE_FAILED]


async def test_a_response_whose_engine_dies_is_broken() -> None:
    script = then_resets(stream(BEGUN, DELTA, ends=False))
    async with Engine(script) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/responses", **ASK))
        await gate.settled()
    assert not answer.is_complete
    assert gate.seats.ends[-1][1] is Outcome.ENGINE_FAILED


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_whole_response_that_failed_is_asked_for_elsewhere(status: str) -> None:
    bad = json.dumps({"status": status, "output": []}, separators=(",", ":")).encode()
    good = json.dumps({"status": "completed", "output": [], "usage": USAGE}).encode()
    async with (
        Engine(answers(whole(bad))) as engine,
        Engine(answers(whole(good)), name="pod-1") as other,
        running(engine, other) as gate,
    ):
        answer = await ask(gate, post("/v1/responses", input="hello"))
        await gate.settled()
    assert (answer.status, answer.body) == (200, good)
    assert gate.seats.failures == [(engine.pod, Outcome.ENGINE_FAILED)]


@pytest.mark.parametrize("text", ['"failed"', '"status":"cancelled"', "failed"])
def test_a_response_may_speak_of_failures(text: str) -> None:
    body = json.dumps({"status": "completed", "output": [text], "metadata": {"status": "failed"}})

    assert not events.is_failed_response(body.encode())


@pytest.mark.parametrize("odd", [[], {}, 1, None, [{"a": []}]])
def test_an_engine_may_send_any_json_for_a_type_or_a_status(odd: object) -> None:
    event = b"data: " + json.dumps({"type": odd, "response": {"status": odd}}).encode()
    whole_answer = json.dumps({"status": odd, "said": "failed"}).encode()

    assert events.judge(event) == (events.Kind.PLAIN, None)
    assert not events.is_failed_response(whole_answer)
