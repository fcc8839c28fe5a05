"""Every way in which a request can end gives its seat back and closes what was open for it."""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable

import pytest
from tests.gate.engine import (
    STREAM_HEAD,
    Engine,
    Script,
    answers,
    chunk,
    completion,
    hangs,
    streams,
    then_resets,
    token,
    whole,
)
from tests.gate.running import Client, Gate, ask, eventually, post, running

from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Outcome, Refusal, Why
from tidegate.gate.wire.relay import Relay
from tidegate.gate.wire.seating import Seating
from tidegate.gate.wire.visit import Visit

ENDLESS = streams(*[token("a")] * 2000, pause=0.005)
NO_ROOM = Refusal(429, Why.KV_BUDGET, "no room", "rate_limit_error", None, 3)


async def reads_the_answer(client: Client, gate: Gate) -> None:
    await client.answer()


async def leaves_at_once(client: Client, gate: Gate) -> None:
    client.writer.transport.abort()


async def leaves_when_it_is_sent(client: Client, gate: Gate) -> None:
    await eventually(lambda: gate.seats.given > 0)
    await asyncio.sleep(0.02)


async def leaves_amid_the_answer(client: Client, gate: Gate) -> None:
    await client.reader.read(1)


async def hangs_up_politely(client: Client, gate: Gate) -> None:
    await eventually(lambda: gate.seats.given > 0)
    client.writer.write_eof()
    await client.is_closed()


ENGINES: dict[str, Script] = {
    "answers": answers(whole(completion())),
    "streams": streams(token("a"), token("b")),
    "streams for long": ENDLESS,
    "is full": answers(whole(b"{}", "503 Busy")),
    "fails": answers(whole(b"{}", "500 Oh")),
    "refuses": answers(whole(b"{}", "400 No")),
    "resets at once": then_resets(answers()),
    "resets amid a stream": then_resets(answers(STREAM_HEAD, chunk(token("a")))),
    "aborts": streams(token("", "abort")),
    "hangs": hangs,
}
CLIENTS = {
    one.__name__: one
    for one in (
        reads_the_answer,
        leaves_at_once,
        leaves_when_it_is_sent,
        leaves_amid_the_answer,
        hangs_up_politely,
    )
}
BOUNDS = {"first_token": "300ms", "between_chunks": "300ms", "total": "1s"}


@pytest.mark.parametrize("script", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("behaves", CLIENTS.values(), ids=CLIENTS)
async def test_no_seat_is_leaked(
    script: Script, behaves: Callable[[Client, Gate], Awaitable[None]]
) -> None:
    """`running` checks that all seats were given back, once each."""
    async with (
        Engine(script) as engine,
        Engine(script, name="pod-1") as other,
        running(engine, other, deadlines=BOUNDS) as gate,
    ):
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await behaves(client, gate)
        await gate.settled()
        await eventually(lambda: gate.told.open_connections == 0)
        await eventually(lambda: len(gate.told.finished_requests) == bool(gate.seats.given))
        await gate.settled()


async def test_a_client_that_leaves_closes_the_engines_connection_at_once() -> None:
    async with Engine(ENDLESS) as engine, running(engine) as gate:
        clients = [await asyncio.open_connection("127.0.0.1", gate.port) for _ in range(50)]
        for _, writer in clients:
            writer.write(post(stream=True))
        for reader, _ in clients:
            await reader.readuntil(b"data:")
        assert engine.open_connections == 50
        left_at = asyncio.get_running_loop().time()
        for _, writer in clients:
            writer.transport.abort()
        await eventually(lambda: engine.open_connections == 0)
        seconds = asyncio.get_running_loop().time() - left_at
        await gate.settled()
    assert seconds < 4, "they would have gone on for ten"
    assert {outcome for _, outcome, _ in gate.seats.ends} == {Outcome.CLIENT_GONE}


async def test_what_a_client_had_before_it_left_is_told() -> None:
    async with Engine(ENDLESS) as engine, running(engine) as gate:
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await client.reader.readuntil(token("a"))
        await gate.settled()
    told = gate.told.last
    assert (told.status, told.outcome) == (200, Outcome.CLIENT_GONE)
    assert told.answer_bytes >= len(token("a"))


async def test_a_client_that_leaves_the_queue_is_taken_out_of_it() -> None:
    async with Engine(streams(token("a"))) as engine, running(engine) as gate:
        gate.seats.is_full = True
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await eventually(lambda: len(gate.seats.waiting) == 1)
            waiting = gate.seats.waiting[0]
        await eventually(lambda: waiting.has_left)
        await gate.settled()
    assert engine.received == []
    assert gate.told.last.status == 0


async def test_a_seat_that_comes_as_the_client_leaves_is_given_back() -> None:
    async with Engine(streams(token("a"))) as engine, running(engine) as gate:
        gate.seats.is_full = True
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await eventually(lambda: len(gate.seats.waiting) == 1)
            for task in gate.server._visits:  # the client leaves in the same turn of the loop
                task.cancel()
            gate.seats.make_room()
            await gate.settled()
    assert [outcome for _, outcome, _ in gate.seats.ends] == [Outcome.CLIENT_GONE]


async def test_a_request_that_waits_is_served_when_there_is_room() -> None:
    async with (
        Engine(streams(token("a"))) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        gate.seats.is_full = True
        client.send(post(stream=True))
        await eventually(lambda: len(gate.seats.waiting) == 1)
        await asyncio.sleep(0.05)
        gate.seats.make_room()
        assert (await client.answer()).status == 200
        await gate.settled()
    assert gate.told.last.queued_seconds is not None
    assert gate.told.last.queued_seconds >= 0.05


async def test_a_refusal_is_quick_and_says_when_to_come_back() -> None:
    async with (
        Engine(streams(token("a"))) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        seconds = []
        for _ in range(50):
            gate.seats.says = [NO_ROOM]
            sent_at = asyncio.get_running_loop().time()
            client.send(post(stream=True))
            answer = await client.answer()
            seconds.append(asyncio.get_running_loop().time() - sent_at)
        await gate.settled()
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert answer.headers["x-tidegate-reason"] == "kv-budget"
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert sorted(seconds)[25] < 0.010
    assert engine.received == []


@pytest.mark.parametrize("broken", ["read", "sent", "first_token", "produced", "ended"])
async def test_an_error_of_the_gate_itself_leaks_nothing(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Engine(streams(token("a"))) as engine, running(engine) as gate:

        def breaks(*_: object) -> None:
            raise RuntimeError("broken")

        if broken == "read":
            monkeypatch.setattr(Reader, broken, breaks)
        else:
            monkeypatch.setattr(gate.seats, broken, breaks)
        async with Client.to(gate) as client:
            client.send(post(stream=True, prompt="a secret"))
            with contextlib.suppress(asyncio.IncompleteReadError):
                await client.answer()
        monkeypatch.undo()
        if broken == "ended":
            gate.seats.ended(gate.seats.open[0], Outcome.FINISHED, None, 0.0)
        await gate.settled()
        assert (await ask(gate, post(stream=True))).status == 200
        await gate.settled()
    if broken == "sent":  # what breaks as bytes arrive looks to the loop like the engine's doing
        assert Outcome.ENGINE_FAILED not in {outcome for _, outcome, _ in gate.seats.ends}
    assert "broken" in caplog.text
    assert "a secret" not in caplog.text


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_request_leaves_nothing_to_the_garbage_collector(leaves: bool) -> None:
    """A long prompt must not stay in memory until a collection."""
    script = ENDLESS if leaves else streams(token("a"))
    async with Engine(script) as engine, running(engine) as gate:
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                async with Client.to(gate) as client:
                    client.send(post(stream=True))
                    if leaves:
                        await client.reader.readuntil(b"data:")
                    else:
                        await client.answer()
            await gate.settled()
            await eventually(lambda: gate.told.open_connections == 0)
            await asyncio.sleep(0.01)
            left = [one for one in gc.get_objects() if isinstance(one, Visit | Relay | Seating)]
        finally:
            gc.enable()
    assert left == []
