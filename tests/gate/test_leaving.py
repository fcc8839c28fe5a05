"""Requests that another deployment serves, and a gate that ends."""

import asyncio
from dataclasses import replace

import pytest
from tests.gate.doubles import Seats
from tests.gate.engine import Engine, answers, completion, streams, token, whole
from tests.gate.running import Client, Gate, ask, eventually, post, running

from tidegate.gate.exchange import Refusal, Shift, Why

SLOWLY = streams(*[token("a")] * 20, pause=0.01)


def shifts(gate: Gate, to: Gate) -> Seats:
    gate.shifts_to["other"] = ("127.0.0.1", to.port)
    gate.seats.says = [Shift("other")]
    return gate.seats


async def test_a_shifted_request_is_served_by_the_other_gate() -> None:
    async with (
        Engine(SLOWLY, "here") as here,
        Engine(SLOWLY, "there") as there,
        running(here) as gate,
        running(there, deployment="other") as other,
    ):
        shifts(gate, other)
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
    async with (
        Engine(SLOWLY) as here,
        Engine(SLOWLY) as there,
        running(here) as gate,
        running(there, deployment="other", tenants={"trusted_peers": ["127.0.0.0/8"]}) as other,
    ):
        shifts(gate, other)
        await ask(gate, post("/v1/completions", "x-tidegate-priority: 2"))
        await other.settled()
    assert other.told.last.priority == 2


async def test_the_other_gates_refusal_is_the_clients() -> None:
    async with (
        Engine(SLOWLY) as here,
        Engine(SLOWLY) as there,
        running(here) as gate,
        running(there, deployment="other") as other,
    ):
        shifts(gate, other)
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
    async with (
        Engine(SLOWLY) as here,
        Engine(SLOWLY) as there,
        running(here) as gate,
        running(there, deployment="other") as other,
    ):
        shifts(gate, other)
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


async def test_a_drain_ends_at_its_deadline() -> None:
    async with (
        Engine(streams(*[token("a")] * 1000, pause=0.01)) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        client.send(post(stream=True))
        await client.reader.readuntil(b"data:")
        assert await gate.server.drain(0.2) is False
        await gate.settled()
        await eventually(lambda: engine.open_connections == 0)


async def test_a_gate_without_a_configuration_says_so() -> None:
    async with Engine(answers(whole(completion()))) as engine, running(engine) as gate:
        gate.server._wiring = replace(gate.server._wiring, config=lambda: None)
        answer = await ask(gate, post())
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (503, "no-configuration")
