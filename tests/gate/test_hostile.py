"""Clients that are broken, slow or mean: bounded in bytes and time, and nobody else notices."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gate.engine import STREAM_HEAD, Engine, chunk, streams, token, whole
from tests.gate.hostility import HOST, POST, gate_and_engine, works
from tests.gate.running import Client, ask, eventually, post, running

from tidegate.gate.wire import client as client_module
from tidegate.gate.wire.memory import Memory

BODY = '{"model": "tiny", "prompt": [1], "max_tokens": 1}'
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
            told = gate.told.last
            assert (told.status, told.why, told.outcome) == (503, "queue-full", None)
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


async def test_the_log_of_a_request_has_no_prompt_and_no_key() -> None:
    async with gate_and_engine() as (gate, _):
        await ask(gate, post("/v1/completions", "authorization: Bearer sk-secret", prompt="mine"))
        await gate.settled()
    told = json.dumps([str(one) for one in gate.told.finished_requests])
    assert "sk-secret" not in told
    assert "mine" not in told
