"""Requests that another deployment serves, and a gate that ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.gate.doubles import Seats
from tests.gate.engine import Engine, answers, completion, event, hangs, streams, token, whole
from tests.gate.engine import Script as EngineScript
from tests.gate.running import Client, Gate, ask, eventually, post, running

from tidegate.gate.exchange import Outcome, Refusal, Script, Shift, Why
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.request_log import failed
from tidegate.gate.shell.telemetry import Telemetry, outcome_of
from tidegate.gate.wire.server import LAST_WORDS_SECONDS

SLOWLY = streams(*[token("a")] * 20, pause=0.01)


class Neighbours(NamedTuple):
    """Two gates, and the engine of each."""

    gate: Gate
    other: Gate
    here: Engine
    there: Engine


def shifts(gate: Gate, to: Gate) -> Seats:
    gate.shifts_to["other"] = ("127.0.0.1", to.port)
    gate.seats.says = [Shift("other")]
    return gate.seats


@asynccontextmanager
async def neighbours(script: EngineScript = SLOWLY, **of_other: Any) -> AsyncIterator[Neighbours]:
    """Run two gates with an engine each, of which the first one shifts its next request."""
    async with (
        Engine(script, "here") as here,
        Engine(script, "there") as there,
        running(here) as gate,
        running(there, deployment="other", **of_other) as other,
    ):
        shifts(gate, other)
        yield Neighbours(gate, other, here, there)


async def test_a_shifted_request_is_served_by_the_other_gate() -> None:
    async with neighbours() as (gate, other, here, there):
        raw = post("/v1/completions", "x-request-id: mine", "authorization: Bearer k", stream=True)
        answer = await ask(gate, raw)
        await gate.settled()
        await other.settled()
    assert (answer.status, answer.is_complete, len(answer.events)) == (200, True, 21)
    assert answer.headers["x-tidegate-served-by"] == "other"
    assert answer.headers["x-request-id"] == "mine"
    assert (len(here.received), len(there.received)) == (0, 1)
    assert gate.told.last.shifted_to == "other"
    assert gate.seats.given == 0
    assert other.seats.given == 1


async def test_the_other_gate_learns_who_asks_from_this_one() -> None:
    async with neighbours(tenants={"trusted_peers": ["127.0.0.0/8"]}) as (gate, other, *_):
        await ask(gate, post("/v1/completions", "x-tidegate-priority: 2"))
        await other.settled()
    assert other.told.last.priority == 2


async def test_what_another_deployment_counted_is_neither_counted_nor_learned_from_here() -> None:
    """It is in that one's metrics, and by that one's tokenizer."""
    said = answers(whole(completion()))
    async with neighbours(said) as (gate, other, *_):
        reader = gate.server._wiring.reader
        before = reader.tokens_per_character(Script.LATIN)
        assert (await ask(gate, post(prompt="x" * 400))).status == 200
        await gate.settled()
        await other.settled()
    counts = Metrics()
    Telemetry(counts).finished(gate.told.last)
    labels = {"model": "other", "kind": "output"}
    assert not counts.registry.get_sample_value("tidegate_gate_tokens_total", labels)
    assert reader.tokens_per_character(Script.LATIN) == before
    assert other.told.last.usage is not None
    assert outcome_of(gate.told.last) == "shifted"


async def test_a_client_that_leaves_another_deployments_stream_has_left() -> None:
    async with neighbours() as (gate, other, *_):
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await client.reader.readuntil(token("a"))
        await gate.settled()
        await other.settled()
    assert (gate.told.last.status, outcome_of(gate.told.last)) == (200, "client-gone")


async def test_the_other_gates_refusal_is_the_clients() -> None:
    async with neighbours() as (gate, other, *_):
        other.seats.says = [Refusal(429, Why.KV_BUDGET, "no room", "rate_limit_error", None, 7)]
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers["x-tidegate-served-by"] == "other"


async def test_a_request_is_served_here_when_the_other_gate_is_gone() -> None:
    async with Engine(SLOWLY) as engine, running(engine) as gate:
        gate.shifts_to["other"] = ("127.0.0.1", 1)
        gate.seats.says = [Shift("other")]
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.is_complete
    assert "x-tidegate-served-by" not in answer.headers
    assert len(engine.received) == 1


async def test_gates_that_point_at_each_other_end_the_round() -> None:
    async with neighbours() as (gate, other, _, there):
        other.shifts_to["tiny"] = ("127.0.0.1", gate.port)
        other.seats.says = [Shift("tiny")]
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.is_complete
    assert len(there.received) == 1, "what another gate sent on is not sent on again"


async def test_a_drain_loses_no_request_and_takes_no_new_connection() -> None:
    async with (
        Engine(SLOWLY) as engine,
        running(engine) as gate,
        Client.to(gate) as streaming,
        Client.to(gate) as waiting,
        Client.to(gate) as idle,
        Client.to(gate) as sending,
    ):
        streaming.send(post(stream=True))
        await streaming.reader.readuntil(b"\r\n\r\n")
        gate.seats.is_full = True
        waiting.send(post(stream=True))
        await eventually(lambda: len(gate.seats.waiting) == 1)
        raw = post(stream=True)
        sending.send(raw[:-5])
        await asyncio.sleep(0.02)
        draining = asyncio.create_task(gate.server.drain(5))
        assert await idle.is_closed()
        gate.seats.make_room()
        sending.send(raw[-5:])
        assert await streaming.reader.readuntil(b"0\r\n\r\n")
        for client in (waiting, sending):
            answer = await client.answer()
            assert answer.is_complete
            assert answer.headers["connection"] == "close"
        assert await draining is True
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", gate.port)


ENDLESS = streams(*[token("a")] * 1000, pause=0.01)


@pytest.mark.parametrize("is_shifted", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_stream_that_a_drain_cuts_says_so_and_counts_as_lost(
    version: str, is_shifted: bool
) -> None:
    async with (
        Engine(ENDLESS) as engine,
        running(engine) as gate,
        running(engine, deployment="other") as other,
        Client.to(gate) as client,
    ):
        if is_shifted:
            shifts(gate, other)
        client.send(post(version=version, stream=True))
        await eventually(lambda: len(engine.received) == 1)
        await asyncio.sleep(0.1)
        assert await gate.server.drain(0.2) is False
        answer = await client.answer()
        await gate.settled()
        await other.settled()
        await eventually(lambda: engine.open_connections == 0)
    assert answer.body.startswith(token("a"))
    assert answer.events[-1]["error"]["code"] == "draining"
    assert b"[DONE]" not in answer.body
    told = gate.told.last
    assert (told.status, outcome_of(told), told.why) == (200, "gate-gone", "draining")
    assert failed(told), "there is a line for it in the log"
    assert gate.seats.failures == []
    assert {outcome for _, outcome, _ in gate.seats.ends} <= {Outcome.GATE_GONE}


ROLE = event(choices=[{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
UNANSWERED = {
    "an engine that says nothing": (Engine(hangs), False, "gate-gone"),
    "a stream before its first token": (
        Engine(streams(ROLE, token("a"), pause=60)),
        False,
        "gate-gone",
    ),
    "a pair's first step": (Engine(hangs, "p", "prefill"), False, "gate-gone"),
    "a place in the queue": (Engine(SLOWLY), True, "refused"),
}


@pytest.mark.parametrize(("engine", "is_full", "outcome"), UNANSWERED.values(), ids=UNANSWERED)
async def test_what_a_drain_cuts_before_its_first_byte_is_refused(
    engine: Engine, is_full: bool, outcome: str
) -> None:
    async with (
        engine,
        Engine(hangs, "other") as other,
        running(engine, other) as gate,
        Client.to(gate) as client,
    ):
        gate.seats.is_full = is_full
        client.send(post("/v1/chat/completions", stream=True, messages=[{"role": "user"}]))
        await eventually(lambda: bool(engine.received or gate.seats.waiting))
        await asyncio.sleep(0.05)
        assert await gate.server.drain(0) is False
        answer = await client.answer()
        await gate.settled()
        await eventually(lambda: engine.open_connections == 0)
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (503, "draining")
    assert answer.headers["retry-after"] == "1"
    assert answer.json["error"]["code"] == "draining"
    assert (outcome_of(gate.told.last), gate.told.last.why) == (outcome, "draining")
    assert gate.seats.failures == []


async def test_a_drain_does_not_wait_for_a_request_that_is_half_sent() -> None:
    async with Engine(SLOWLY) as engine, running(engine) as gate, Client.to(gate) as client:
        client.send(post()[:-5])
        await eventually(lambda: any(one.is_served for one in gate.server._clients))
        begun_at = asyncio.get_running_loop().time()
        await gate.server.drain(0)
        assert asyncio.get_running_loop().time() - begun_at < LAST_WORDS_SECONDS / 2
        assert await client.is_closed()


async def test_a_gate_without_a_configuration_says_so() -> None:
    async with Engine(answers(whole(completion()))) as engine, running(engine) as gate:
        gate.server._wiring = replace(gate.server._wiring, config=lambda: None)
        answer = await ask(gate, post())
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (503, "no-configuration")
