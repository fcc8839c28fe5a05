import asyncio
import json

import pytest
from tests.gate.engine import (
    STREAM_HEAD,
    Engine,
    answers,
    chunk,
    completion,
    event,
    streams,
    token,
    usage_event,
    whole,
)
from tests.gate.running import Client, ask, eventually, post, running

from tidegate.gate.exchange import Outcome, Usage

TOKENS = [token("a"), token("b"), token("c", "length")]


async def test_a_whole_answer_is_passed_on_as_it_is() -> None:
    body = completion()
    async with (
        Engine(answers(whole(body, "200 OK", "x-engine: 1"))) as engine,
        running(engine) as g,
    ):
        answer = await ask(
            g, post("/v1/completions", "x-request-id: mine", "traceparent: 00-a-b-01")
        )
        await g.settled()
    assert (answer.status, answer.body, answer.is_complete) == (200, body, True)
    assert answer.headers["x-request-id"] == "mine"
    assert answer.headers["x-tidegate-revision"] == "r1"
    assert answer.headers["x-engine"] == "1"
    received = engine.received[0]
    assert received.line == "POST /v1/completions HTTP/1.1"
    assert received.headers["x-request-id"] == "mine"
    assert received.headers["traceparent"] == "00-a-b-01"
    assert g.seats.ends == [(engine.pod, Outcome.FINISHED, Usage(7, 3))]
    assert g.told.last.status == 200
    assert g.told.last.pod == "pod-0"


async def test_a_stream_is_passed_on_event_by_event() -> None:
    async with (
        Engine(streams(*TOKENS, usage_event(), pause=0.05)) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        client.send(post(stream=True, stream_options={"include_usage": True}))
        await client.reader.readuntil(b"\r\n\r\n")
        first = await client.reader.readuntil(b"\n\n\r\n")
        assert b'"a"' in first
        assert b'"b"' not in first, "the first event came before the second was made"
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert b'"usage"' in rest
        await gate.settled()
    assert gate.seats.ends == [(engine.pod, Outcome.FINISHED, Usage(7, 3))]
    assert gate.seats.tokens == gate.told.tokens == 5
    assert gate.told.first_tokens == gate.seats.first_tokens == 1


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with other events"])
async def test_the_usage_that_only_the_gate_asked_for_is_kept_from_the_client(
    together: bool,
) -> None:
    last = [token("c", "length"), usage_event(), b"data: [DONE]\n\n"]
    parts = [chunk(b"".join(last))] if together else [chunk(one) for one in last]
    script = answers(STREAM_HEAD, chunk(token("a")), b"".join(parts), b"0\r\n\r\n")
    async with Engine(script) as engine, running(engine) as gate:
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert engine.received[0].json["stream_options"] == {"include_usage": True}
    assert answer.is_complete
    assert [one["choices"][0]["text"] for one in answer.events[:-1]] == ["a", "c"]
    assert answer.events[-1] == "[DONE]"
    assert gate.seats.ends == [(engine.pod, Outcome.FINISHED, Usage(7, 3))]


async def test_a_text_that_speaks_of_usage_and_errors_is_left_alone() -> None:
    tricky = [token('"usage":{"a":1}'), token("abort"), token('data: {"error": 1}', "length")]
    async with Engine(streams(*tricky)) as engine, running(engine) as gate:
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.body == b"".join(tricky) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_chunks_that_are_torn_arrive_whole(cut: int) -> None:
    raw = b"".join(chunk(one) for one in [*TOKENS, b"data: [DONE]\n\n"]) + b"0\r\n\r\n"
    parts = [raw[at : at + cut] for at in range(0, len(raw), cut)]
    async with Engine(answers(STREAM_HEAD, *parts, pause=0.0005)) as engine, running(engine) as g:
        answer = await ask(g, post(stream=True))
        await g.settled()
    assert answer.is_complete
    assert answer.body == b"".join(TOKENS) + b"data: [DONE]\n\n"


async def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async with Engine(streams(*TOKENS, usage_event())) as engine, running(engine) as gate:
        answer = await ask(gate, post(version="1.0", stream=True))
        await gate.settled()
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert answer.body == b"".join(TOKENS) + b"data: [DONE]\n\n"


async def test_long_answers_are_passed_on_before_they_are_whole() -> None:
    body = json.dumps({"data": "x" * 3_000_000, "usage": {"prompt_tokens": 5}}).encode()
    async with Engine(answers(whole(body))) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/embeddings", input=[1, 2, 3]))
        await gate.settled()
    assert answer.body == body
    assert gate.seats.ends[0][2] == Usage(5, 0)


async def test_a_chunk_beyond_what_is_held_is_passed_on_in_parts() -> None:
    long = token("x" * 300_000)
    async with Engine(streams(long, token("b", "stop"))) as engine, running(engine) as gate:
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.is_complete
    assert answer.body.startswith(long)


async def test_connections_on_both_sides_are_kept() -> None:
    async with (
        Engine(answers(whole(completion()))) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        for _ in range(5):
            client.send(post())
            assert (await client.answer()).status == 200
        await gate.settled()
    assert engine.connections == 1
    assert len(engine.received) == 5


async def test_requests_sent_ahead_are_answered_one_at_a_time_and_in_order() -> None:
    scripts = [answers(whole(completion(text=str(n))), pause=0.01) for n in range(4)]
    async with (
        Engine(list(scripts)) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        client.send(b"".join(post(user=str(n)) for n in range(4)))
        texts = [(await client.answer()).json["choices"][0]["text"] for _ in range(4)]
        await gate.settled()
    assert texts == ["0", "1", "2", "3"]
    assert [one.json["user"] for one in engine.received] == ["0", "1", "2", "3"]
    assert engine.connections == 1


async def test_a_body_in_chunks_reaches_the_engine_whole() -> None:
    body = json.dumps({"model": "tiny", "prompt": "x" * 1000, "max_tokens": 4}).encode()
    parts = [chunk(body[at : at + 333]) for at in range(0, len(body), 333)]
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    async with (
        Engine(answers(whole(completion()))) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        client.send(head)
        for part in parts:
            client.send(part[:5])
            await asyncio.sleep(0.002)
            client.send(part[5:])
        client.send(b"0\r\nx-trailer: dropped\r\n\r\n")
        assert (await client.answer()).status == 200
        await gate.settled()
    assert engine.received[0].json == json.loads(body)


async def test_a_client_that_waits_for_100_continue_gets_it() -> None:
    raw = post("/v1/completions", "expect: 100-continue")
    head, _, body = raw.partition(b"\r\n\r\n")
    async with (
        Engine(answers(whole(completion()))) as engine,
        running(engine) as gate,
        Client.to(gate) as client,
    ):
        client.send(head + b"\r\n\r\n")
        assert (await client.answer()).status == 100
        client.send(body)
        assert (await client.answer()).status == 200


REFUSALS = {
    "JSON": b'{"error": {"message": "max_tokens is too large", "code": 400}}',
    "plain text": b"Invalid HTTP request received.\n",
    "a page": b"<html>no</html>",
    "nothing": b"",
    "the client's own words": b'{"error": {"input": {"finish_reason": "abort"}}}',
}


@pytest.mark.parametrize("body", REFUSALS.values(), ids=REFUSALS)
async def test_the_engines_own_refusal_is_the_clients_and_is_not_tried_again(body: bytes) -> None:
    """Else whoever knows how to be refused could have healthy pods left out."""
    async with Engine(answers(whole(body, "400 Bad Request"))) as engine, running(engine) as gate:
        answer = await ask(gate, post())
        await gate.settled()
    assert (answer.status, answer.body) == (400, body)
    assert len(engine.received) == 1
    assert gate.seats.ends == [(engine.pod, Outcome.ENGINE_REFUSED, None)]


def in_bytes(body: bytes) -> bytes:
    """Answer as vLLM does with `encoding_format: bytes`."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nmetadata: {}\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


async def test_embeddings_pass_as_bytes() -> None:
    body = b"\x00\x01\x7b\xff" * 100
    async with Engine(answers(in_bytes(body))) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/embeddings", input="a", encoding_format="bytes"))
        await gate.settled()
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert (answer.headers["metadata"], answer.body) == ("{}", body)
    assert gate.seats.ends == [(engine.pod, Outcome.FINISHED, None)]


async def test_chat_and_responses_streams_pass_too() -> None:
    said = [
        event(choices=[{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]),
        event(choices=[{"delta": {"content": "hi"}, "finish_reason": "stop"}]),
    ]
    async with Engine(streams(*said)) as engine, running(engine) as gate:
        messages = [{"role": "user", "content": "hello"}]
        answer = await ask(gate, post("/v1/chat/completions", stream=True, messages=messages))
        await gate.settled()
        assert answer.events[:-1] == [json.loads(one[6:]) for one in said]
        whole_response = {"type": "response.completed", "response": {"usage": {"input_tokens": 4}}}
        raw = b"event: response.completed\n" + event(**whole_response)
        engine.script = streams(raw, ends=False)
        engine.script = answers(STREAM_HEAD, chunk(raw), b"0\r\n\r\n")
        answer = await ask(gate, post("/v1/responses", stream=True, input="hello"))
        await gate.settled()
    assert answer.is_complete
    assert answer.body == raw
    assert gate.seats.ends[-1][2] == Usage(4, 0)


async def test_everyone_is_told_of_connections() -> None:
    async with Engine(answers(whole(completion()))) as engine, running(engine) as gate:
        async with Client.to(gate), Client.to(gate):
            await eventually(lambda: gate.told.open_connections == 2)
        await eventually(lambda: gate.told.open_connections == 0)
