"""Clients who read slowly, or not at all: bounded in what they make a gate hold."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.gate.engine import STREAM_HEAD, Engine, answers, chunk, completion, streams, token, whole
from tests.gate.hostility import HOST
from tests.gate.running import Client, Gate, ask, eventually, post, running

from tidegate.gate.exchange import Outcome
from tidegate.gate.wire import client as client_module
from tidegate.gate.wire import relay as relay_module
from tidegate.gate.wire.memory import Memory


async def test_a_slow_reader_stops_the_engine_and_nobody_else() -> None:
    lump = chunk(token("x" * 30_000))
    written = 0

    async def floods(_: object, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(STREAM_HEAD)
        for _ in range(3000):  # 90 MB
            writer.write(lump)
            await writer.drain()
            written += len(lump)
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async with (
        Engine(floods) as engine,
        Engine(streams(token("a")), name="pod-1") as quick,
        running(engine, quick) as gate,
        Client.to(gate) as slow,
    ):
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a Transport
        slow.send(post(stream=True))
        await eventually(lambda: written > 0)
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.2)
        assert written < 20_000_000, "the engine is stopped; the rest is in the kernel's buffers"
        held = sum(one._transport.get_write_buffer_size() for one in gate.server._clients)
        assert held < 1_000_000
        gate.seats.pods.reverse()
        for _ in range(20):
            assert (await ask(gate, post(stream=True))).is_complete
        assert written < 20_000_000, "the others were served while it stood still"
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a Transport
        answer = await slow.answer(30)
        assert answer.is_complete
        assert len(answer.body) > 90_000_000
        await gate.settled()


async def test_a_client_that_reads_nothing_gives_its_seat_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "CLIENT_STALL_SECONDS", 0.3)
    flood = streams(*[token("x" * 30_000)] * 1000)
    async with Engine(flood) as engine, running(engine) as gate, Client.to(gate) as slow:
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a Transport
        slow.send(post(stream=True))
        await eventually(lambda: gate.seats.given == 1)
        await gate.settled()
        await eventually(lambda: engine.open_connections == 0)
    assert gate.told.last.outcome == "client-gone"


async def test_an_engine_is_not_to_blame_when_a_slow_reader_takes_too_long() -> None:
    flood = streams(*[token("x" * 30_000)] * 1000)
    deadlines = {"total": "500ms"}
    async with (
        Engine(flood) as engine,
        running(engine, deadlines=deadlines) as gate,
        Client.to(gate) as slow,
    ):
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a Transport
        slow.send(post(stream=True))
        await eventually(lambda: gate.seats.given == 1)
        await gate.settled()
    assert gate.seats.ends == [(engine.pod, Outcome.TOTAL_DEADLINE, None)]


async def test_requests_sent_ahead_without_end_are_not_read() -> None:
    async with Engine(streams(*[token("a")] * 40, pause=0.01)) as engine, running(engine) as gate:
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await client.reader.readuntil(b"data:")
            client.send(post(stream=True) * 100_000)
            await asyncio.sleep(0.2)
            (served,) = gate.server._clients
            assert served._intake.waiting_bytes < 1_000_000
        await eventually(lambda: gate.told.open_connections == 0, 10)
        await gate.settled()


UNREAD = {
    "the gate's own": f"GET /v1/models HTTP/1.1\r\n{HOST}\r\n".encode(),
    "an engine's": post(),
}


class Nobody:
    """A holder that is never told to go."""

    def abort(self) -> None:
        raise AssertionError("it holds less than is allowed")


NOBODY = Nobody()


def held_bytes(gate: Gate) -> int:
    return sum(
        one._transport.get_write_buffer_size() + one._intake.waiting_bytes
        for one in gate.server._clients
    )


@asynccontextmanager
async def one_who_does_not_read(gate: Gate) -> AsyncIterator[Client]:
    """Connect a client that reads nothing, in whose place the kernel takes little."""
    for listening in gate.server._listening:
        for one in listening.sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    async with Client.to(gate) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a Transport
        yield client


def read_again(client: Client) -> None:
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a Transport


@pytest.mark.parametrize("raw", UNREAD.values(), ids=UNREAD)
async def test_answers_that_nobody_reads_do_not_pile_up(
    raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(answers(whole(completion(text="x" * 20_000))))
    models = ["tiny", *(f"tiny-{number}" for number in range(31))]  # a list of some length
    async with (
        engine,
        running(engine, models=models) as gate,
        one_who_does_not_read(gate) as client,
    ):
        client.send(raw * (20_000_000 // len(raw)))
        await eventually(lambda: held_bytes(gate) > client_module.HIGH_WATER_BYTES)
        for _ in range(20):
            await asyncio.sleep(0.05)
            assert held_bytes(gate) < 1_000_000
        monkeypatch.setattr(client_module, "CLIENT_STALL_SECONDS", 0.3)
        await eventually(lambda: gate.told.open_connections == 0, 20)


async def test_requests_sent_ahead_go_on_when_their_answers_are_read() -> None:
    count = 400
    engine = Engine(answers(whole(completion(text="x" * 20_000))))
    async with engine, running(engine) as gate, one_who_does_not_read(gate) as client:
        client.send(post() * count)
        await eventually(lambda: held_bytes(gate) > client_module.HIGH_WATER_BYTES)
        read_again(client)
        for _ in range(count):
            assert (await client.answer()).status == 200


@pytest.mark.parametrize("seconds", [0.0, 0.5])
async def test_a_drain_ends_although_a_client_does_not_read_its_answer(seconds: float) -> None:
    engine = Engine(answers(whole(completion(text="x" * 1_000_000))))
    async with engine, running(engine) as gate, one_who_does_not_read(gate) as client:
        client.send(post())
        await eventually(lambda: gate.seats.given == 1 and gate.server.in_flight == 0)
        assert held_bytes(gate) > 0
        async with asyncio.timeout(seconds + 2):
            await gate.server.drain(seconds)
        await eventually(lambda: gate.told.open_connections == 0)


async def test_a_drain_waits_for_a_client_that_is_still_reading() -> None:
    text = "x" * 1_000_000
    engine = Engine(answers(whole(completion(text=text))))
    async with engine, running(engine) as gate, one_who_does_not_read(gate) as client:
        client.send(post())
        await eventually(lambda: gate.server.in_flight == 0 and gate.seats.given == 1)
        assert held_bytes(gate) > 0
        draining = asyncio.create_task(gate.server.drain(5))
        await asyncio.sleep(0.3)
        read_again(client)
        answer = await client.answer()
        assert answer.is_complete
        assert len(answer.body) > len(text)
        assert await draining


async def test_many_who_do_not_read_hold_a_bounded_amount_and_the_slowest_goes() -> None:
    flood = streams(*[token("x" * 30_000)] * 200)
    async with (
        Engine(flood) as engine,
        running(engine) as gate,
        contextlib.AsyncExitStack() as all_,
    ):
        gate.server.memory = memory = Memory(8 * 200_000)
        slow = []
        for _ in range(12):
            slow.append(await all_.enter_async_context(one_who_does_not_read(gate)))
            slow[-1].send(post(stream=True))
            await asyncio.sleep(0.05)
            assert held_bytes(gate) < 600_000
        await eventually(lambda: gate.told.open_connections < len(slow))
        assert memory.buffered_bytes <= 200_000
        assert gate.told.finished_requests[0].outcome == "client-gone"
    assert memory.buffered_bytes == 0


async def test_nobody_new_is_taken_while_those_who_do_not_read_hold_too_much() -> None:
    flood = streams(*[token("x" * 30_000)] * 200)
    async with Engine(flood) as engine, running(engine) as gate:
        async with one_who_does_not_read(gate) as slow:
            gate.server.memory = Memory(8 * 1_000_000)
            slow.send(post(stream=True))
            await eventually(lambda: gate.server.memory.buffered_bytes > 0)
            gate.server.memory.buffers(NOBODY, 740_000)
            answer = await ask(gate, post())
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            gate.server.memory.buffers(NOBODY, 0)
            assert (await ask(gate, post())).status == 200
        await gate.settled()


async def test_answers_are_not_kept_to_be_judged_where_there_is_no_room_for_them() -> None:
    text = "x" * 250_000
    said = whole(completion(text=text))
    engine = Engine(answers(said[:200_000], b"", said[200_000:], pause=0.1))
    async with engine, running(engine) as gate, Client.to(gate) as client:
        gate.server.memory = memory = Memory(8 * 800_000)
        memory.buffers(NOBODY, 590_000)
        client.send(post())
        assert (await client.answer(to_head=True)).status == 200
        assert gate.server.in_flight == 1, "it began before it was whole"
        assert text.encode() in await client.reader.readuntil(b"}}")
        await gate.settled()
        await eventually(lambda: memory.buffered_bytes == 590_000)
