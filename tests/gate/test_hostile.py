"""Clients that are broken, slow or mean: bounded in bytes and time, and nobody else notices."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gate.engine import STREAM_HEAD, Engine, answers, chunk, completion, streams, token, whole
from tests.gate.running import Client, Gate, ask, eventually, post, running

from tidegate.gate.wire import client as client_module
from tidegate.gate.wire import relay as relay_module
from tidegate.gate.wire.memory import Memory

HOST = "host: g\r\n"
BODY = '{"model": "tiny", "prompt": [1], "max_tokens": 1}'
POST = f"POST /v1/completions HTTP/1.1\r\n{HOST}"
LENGTH = f"content-length: {len(BODY)}\r\n"
CHUNKED = "transfer-encoding: chunked\r\n"
SMUGGLED = "POST /v1/completions HTTP/1.1\r\nhost: smuggled\r\n\r\n"

SMUGGLING = {
    "length and chunks": f"{POST}{LENGTH}{CHUNKED}\r\n0\r\n\r\n{SMUGGLED}",
    "chunks and length": f"{POST}{CHUNKED}{LENGTH}\r\n0\r\n\r\n{SMUGGLED}",
    "two lengths": f"{POST}{LENGTH}content-length: 0\r\n\r\n{BODY}",
    "the same length twice": f"{POST}{LENGTH}{LENGTH}\r\n{BODY}",
    "a list of lengths": f"{POST}content-length: 5, 5\r\n\r\n{BODY}",
    "a signed length": f"{POST}content-length: +5\r\n\r\n{BODY}",
    "a negative length": f"{POST}content-length: -1\r\n\r\n{BODY}",
    "a hexadecimal length": f"{POST}content-length: 0x5\r\n\r\n{BODY}",
    "an endless length": f"{POST}content-length: {'9' * 40}\r\n\r\n{BODY}",
    "a length with a blank": f"{POST}content-length : {len(BODY)}\r\n\r\n{BODY}",
    "chunks spelled otherwise": f"{POST}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunks with a tab": f"{POST}transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two encodings": f"{POST}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks and identity": f"{POST}{CHUNKED}transfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "a folded header": f"{POST}x: a\r\n transfer-encoding: chunked\r\n{LENGTH}\r\n{BODY}",
    "a bare line feed in the head": f"{POST}x: a\n{LENGTH}\r\n{BODY}",
    "bare line feeds only": f"{POST}{LENGTH}\r\n".replace("\r\n", "\n") + "\r\n\r\n",
    "a bare carriage return": f"{POST}x: a\rb\r\n{LENGTH}\r\n{BODY}",
    "a zero byte": f"{POST}x: a\x00b\r\n{LENGTH}\r\n{BODY}",
    "no host": f"POST /v1/completions HTTP/1.1\r\n{LENGTH}\r\n{BODY}",
    "two hosts": f"{POST}{HOST}{LENGTH}\r\n{BODY}",
    "chunks in HTTP/1.0": f"POST /v1/completions HTTP/1.0\r\n{CHUNKED}\r\n0\r\n\r\n",
    "HTTP/0.9": "GET /v1/models\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an unknown method": f"BREW /v1/completions HTTP/1.1\r\n{HOST}\r\n",
    "a header without a colon": f"{POST}nonsense\r\n\r\n",
    "a chunk size with a sign": f"{POST}{CHUNKED}\r\n+5\r\nabcde\r\n0\r\n\r\n",
    "a chunk size with 0x": f"{POST}{CHUNKED}\r\n0x5\r\nabcde\r\n0\r\n\r\n",
    "a chunk size with a blank before": f"{POST}{CHUNKED}\r\n 5\r\nabcde\r\n0\r\n\r\n",
    "a chunk size with an underscore": f"{POST}{CHUNKED}\r\n1_0\r\nabcde\r\n0\r\n\r\n",
    "a huge chunk size": f"{POST}{CHUNKED}\r\n{'f' * 17}\r\nabcde\r\n0\r\n\r\n",
    "a chunk with a bare line feed": f"{POST}{CHUNKED}\r\n5\nabcde\n0\n\n",
    "a chunk longer than told": f"{POST}{CHUNKED}\r\n3\r\nabcdefgh\r\n0\r\n\r\n",
    "an endless chunk extension": f"{POST}{CHUNKED}\r\n5;{'x' * 5000}",
    "endless trailers": f"{POST}{CHUNKED}\r\n0\r\n" + "x: y\r\n" * 5000,
}


@asynccontextmanager
async def gate_and_engine(**changes: Any) -> AsyncIterator[tuple[Gate, Engine]]:
    async with Engine(answers(whole(completion()))) as engine, running(engine, **changes) as gate:
        yield gate, engine


async def works(gate: Gate) -> None:
    """Check that the gate serves, and has nothing left from before."""
    assert (await ask(gate, post())).status == 200
    await gate.settled()
    await eventually(lambda: gate.told.open_connections == 0)
    assert gate.server.memory.bodies_bytes == gate.server.memory.buffered_bytes == 0


@pytest.mark.parametrize("raw", SMUGGLING.values(), ids=SMUGGLING)
async def test_what_two_readers_could_take_for_two_things_is_refused(raw: str) -> None:
    async with gate_and_engine() as (gate, engine):
        async with Client.to(gate) as client:
            client.send(raw.encode("latin-1"))
            answer = await client.answer()
            assert answer.status == 400
            assert answer.headers["connection"] == "close"
            assert await client.is_closed(), "what follows is not looked at"
        assert engine.received == []
        await works(gate)


@pytest.mark.parametrize("size", [40_000, 400_000])
@pytest.mark.parametrize("shape", ["one long", "many", "a long target", "no end"])
async def test_heads_beyond_the_bound_are_refused(size: int, shape: str) -> None:
    raw = {
        "one long": f"{POST}x: {'y' * size}\r\n\r\n",
        "many": POST + "x: y\r\n" * (size // 6) + "\r\n",
        "a long target": f"GET /{'y' * size} HTTP/1.1\r\n{HOST}\r\n",
        "no end": f"{POST}x: {'y' * size}",
    }[shape]
    async with gate_and_engine() as (gate, _):
        async with Client.to(gate) as client:
            client.send(raw.encode())
            assert (await client.answer()).status == 431
            assert await client.is_closed()
        await works(gate)


@pytest.mark.parametrize("chunked", [False, True])
async def test_bodies_beyond_the_bound_are_refused_and_the_answer_is_read(chunked: bool) -> None:
    body = b"x" * 300_000
    framed = chunk(body) if chunked else body
    framing = CHUNKED if chunked else f"content-length: {len(body)}\r\n"
    async with gate_and_engine(limits={"body_bytes": 100_000}) as (gate, engine):
        async with Client.to(gate) as client:
            client.send(f"{POST}{framing}\r\n".encode() + framed)
            answer = await client.answer()
            assert (answer.status, answer.headers["x-tidegate-reason"]) == (413, "too-large")
            assert await client.is_closed()
        assert engine.received == []
        await works(gate)


@pytest.mark.parametrize("size", [1, 2, 16])
async def test_bodies_in_tiny_chunks_are_refused(size: int) -> None:
    body = BODY + " " * 200_000
    chunks = b"".join(chunk(body[at : at + size].encode()) for at in range(0, len(body), size))
    async with gate_and_engine() as (gate, engine):
        async with Client.to(gate) as client:
            client.send(f"{POST}{CHUNKED}\r\n".encode() + chunks + b"0\r\n\r\n")
            answer = await client.answer()
            assert answer.status == 400
            assert "chunks are too small" in answer.json["error"]["message"]
            assert await client.is_closed()
        assert engine.received == []
        await works(gate)


@pytest.mark.parametrize("size", [1, 100, 70_000])
async def test_bodies_in_chunks_of_any_sensible_size_are_taken(size: int) -> None:
    body = BODY if size == 1 else BODY + " " * 200_000
    chunks = b"".join(chunk(body[at : at + size].encode()) for at in range(0, len(body), size))
    async with gate_and_engine() as (gate, engine):
        async with Client.to(gate) as client:
            client.send(f"{POST}{CHUNKED}\r\n".encode() + chunks + b"0\r\n\r\n" + post())
            assert (await client.answer()).status == 200
            assert (await client.answer()).status == 200
        assert engine.received[0].json["prompt"] == [1]
        await works(gate)


async def test_all_bodies_together_are_bounded() -> None:
    head = f"{POST}content-length: 400000\r\n\r\n".encode()
    async with gate_and_engine() as (gate, _):
        gate.server.memory = Memory(4_000_000)
        async with Client.to(gate) as first, Client.to(gate) as second, Client.to(gate) as third:
            for one in (first, second):
                one.send(head)
            await eventually(lambda: gate.server.memory.bodies_bytes == 800_000)
            third.send(head)
            answer = await third.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await works(gate)


@pytest.mark.parametrize(
    "raw", [b"", POST.encode()[:20], POST.encode() + LENGTH.encode() + b"\r\n" + b'{"mo']
)
async def test_clients_that_dawdle_are_cut_off(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_SECONDS", "IDLE_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(client_module, name, 0.3)
    async with gate_and_engine() as (gate, _):
        async with Client.to(gate) as client:
            client.send(raw)

            async def drip() -> None:
                for byte in b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx" if raw else b"":
                    await asyncio.sleep(0.05)
                    client.send(bytes([byte]))

            dripping = asyncio.create_task(drip())
            said = await asyncio.wait_for(client.reader.read(), 2)
            dripping.cancel()
        assert said.startswith(b"HTTP/1.1 408 ") if raw else said == b""
        monkeypatch.undo()
        await works(gate)


@pytest.mark.parametrize(
    "cap",
    [
        {"limits": {"connections": 10}},
        {"most_files": 21},
        {"most_files": 32, "services": {"prefill": "tiny-p", "decode": "tiny-d"}},
    ],
    ids=["configured", "open files", "open files for a pair"],
)
async def test_connections_beyond_the_cap_are_told_so(cap: dict[str, Any]) -> None:
    async with gate_and_engine(**cap) as (gate, _):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(10):
                await stack.enter_async_context(Client.to(gate))
            await eventually(lambda: gate.told.open_connections == 10)
            async with Client.to(gate) as one_more:
                assert (await one_more.answer()).status == 503
                assert await one_more.is_closed()
        await eventually(lambda: gate.told.open_connections == 0)
        await works(gate)


OTHERS = {
    "not found": (f"POST /v1/other HTTP/1.1\r\n{HOST}{LENGTH}\r\n{BODY}", 404),
    "not allowed": (f"GET /v1/completions HTTP/1.1\r\n{HOST}\r\n", 405),
    "invalid UTF-8": (f"{POST}content-length: 4\r\n\r\n\xff\xfe\xfd\xfc", 400),
    "deep JSON": (f"{POST}content-length: 20000\r\n\r\n{'[' * 20000}", 400),
    "models": (f"GET /v1/models HTTP/1.1\r\n{HOST}\r\n", 200),
    "an absolute target": (f"GET http://g/v1/models?x=y HTTP/1.1\r\n{HOST}\r\n", 200),
    "an upgrade that is offered": (
        f"GET /v1/models HTTP/1.1\r\n{HOST}connection: upgrade\r\nupgrade: h2c\r\n\r\n",
        200,
    ),
    "empty lines before": (f"\r\n\r\nGET /v1/models HTTP/1.1\r\n{HOST}\r\n", 200),
}


@pytest.mark.parametrize(("raw", "status"), OTHERS.values(), ids=OTHERS)
async def test_requests_that_the_gate_answers_itself_keep_the_connection(
    raw: str, status: int
) -> None:
    async with gate_and_engine() as (gate, _):
        async with Client.to(gate) as client:
            client.send(raw.encode("latin-1"))
            answer = await client.answer()
            assert answer.status == status
            assert "x-request-id" in answer.headers
            client.send(post())
            assert (await client.answer()).status == 200
        await works(gate)


async def test_head_and_options_are_answered_without_a_body() -> None:
    async with gate_and_engine() as (gate, _), Client.to(gate) as client:
        client.send(f"HEAD /v1/models HTTP/1.1\r\n{HOST}\r\n".encode())
        answer = await client.answer(to_head=True)
        assert int(answer.headers["content-length"]) > 10
        client.send(f"OPTIONS /v1/completions HTTP/1.1\r\n{HOST}\r\n".encode())
        assert (await client.answer()).status == 204
        client.send(f"GET /v1/models HTTP/1.1\r\n{HOST}\r\n".encode())
        assert (await client.answer()).json["data"][0]["id"] == "tiny"


PIECES = [
    POST,
    LENGTH,
    CHUNKED,
    BODY,
    HOST,
    "\r\n",
    "\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "GET /v1/models HTTP/1.1\r\n",
    "HEAD /v1/models HTTP/1.0\r\n",
    "connection: close\r\n",
    "expect: 100-continue\r\n",
    "content-length: 18446744073709551616\r\n",
    "x-request-id: \xff\r\n",
    "authorization: Bearer \x80\r\n",
    "\x00",
    "[" * 5000,
]


@st.composite
def bytes_of_a_client(draw: st.DrawFn) -> list[bytes]:
    """Draw requests with pieces missing, doubled, torn and turned over; in several writes."""
    pieces = st.one_of(
        st.sampled_from(PIECES).map(lambda piece: piece.encode("latin-1")),
        st.binary(max_size=40),
        st.just(post(stream=True)),
    )
    raw = bytearray(b"".join(draw(st.lists(pieces, min_size=1, max_size=12))))
    for _ in range(draw(st.integers(0, 3))):
        if raw:
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=3)))
    return [bytes(raw[a:b]) for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(writes=bytes_of_a_client())
async def test_no_bytes_crash_the_gate_or_leak(writes: list[bytes]) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with Engine(streams(token("a"))) as engine, running(engine) as gate:
        async with Client.to(gate) as client:
            for raw in writes:
                client.send(raw)
                await asyncio.sleep(0)
            with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
                await asyncio.wait_for(client.reader.read(), 0.02)
        await works(gate)
    assert errors == []


@settings(max_examples=150, deadline=None)
@given(
    raw=st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=100).map(lambda tail: STREAM_HEAD + tail),
        st.binary(max_size=60).map(lambda tail: STREAM_HEAD + chunk(token("a")) + tail),
        st.binary(max_size=60).map(lambda said: STREAM_HEAD + chunk(said) + b"0\r\n\r\n"),
        st.binary(max_size=60).map(lambda said: whole(said)),
        st.binary(max_size=60).map(lambda said: STREAM_HEAD + chunk(b'"usage":' + said)),
        st.sampled_from([b'{"usage":[]}', b'{"error":0,"choices":[1]}', b"[]", b"{", b"1e999"]).map(
            lambda said: STREAM_HEAD + chunk(b"data: " + said + b'"usage":\n\n')
        ),
    )
)
async def test_no_bytes_of_an_engine_crash_the_gate_or_leak(raw: bytes) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

    async def script(_: object, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        writer.close()

    async with Engine(script) as engine, running(engine) as gate:
        with contextlib.suppress(asyncio.IncompleteReadError):
            answer = await ask(gate, post(stream=True))
            assert answer.status in (200, 502) or answer.status in range(400, 500)
        await gate.settled()
    assert errors == []


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


async def test_the_log_of_a_request_has_no_prompt_and_no_key() -> None:
    async with gate_and_engine() as (gate, _):
        await ask(gate, post("/v1/completions", "authorization: Bearer sk-secret", prompt="mine"))
        await gate.settled()
    told = json.dumps([str(one) for one in gate.told.finished_requests])
    assert "sk-secret" not in told
    assert "mine" not in told
