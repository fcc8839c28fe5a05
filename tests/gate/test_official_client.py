"""The official `openai` client through a gate: all of its surface, and bodies as it wrote them.

The engine answers with what vLLM would; the double has no tools, logprobs or embeddings.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from tests.gate.engine import STREAM_HEAD, Engine, Received, Script, answers, chunk, event, whole
from tests.gate.running import Gate, running

from tidegate.gate.exchange import Usage

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
RESPONSE_USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}
QUESTION = [{"role": "user", "content": "How high is the tide?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "Tell the height of the tide.",
        "parameters": {
            "type": "object",
            # named like fields of the engine's own, which no client may set
            "properties": {"place": {"type": "string"}, "priority": {"type": "integer"}},
            "required": ["place"],
        },
    },
}
ARGUMENTS = '{"place": "Brest", "priority": 1}'
CALL = {"id": "call-1", "type": "function", "function": {"name": "tide", "arguments": ARGUMENTS}}
LOGPROB = {"token": "high", "bytes": [104, 105, 103, 104], "logprob": -0.25}
LOGPROBS = {"content": [{**LOGPROB, "top_logprobs": [LOGPROB]}], "refusal": None}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def chat(*choices: dict[str, Any]) -> bytes:
    listed = [
        {
            "index": index,
            "finish_reason": "stop",
            **choice,
            "message": {"role": "assistant", "content": None, **choice.get("message", {})},
        }
        for index, choice in enumerate(choices)
    ]
    told = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": "tiny"}
    return json.dumps({**told, "choices": listed, "usage": USAGE}).encode()


def chat_chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event(
        id="chat-1", object="chat.completion.chunk", created=1, model="tiny", choices=[choice]
    )


def response(**changes: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": "It is high.", "annotations": []}
    message = {"id": "m-1", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "id": "resp-1",
        "object": "response",
        "created_at": 1,
        "model": "tiny",
        "status": "completed",
        "output": [{**message, "content": [text]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": RESPONSE_USAGE,
        **changes,
    }


def response_event(kind: str, number: int, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, "sequence_number": number, **fields})
    return f"event: {kind}\ndata: {body}\n\n".encode()


@asynccontextmanager
async def client_before(script: Script) -> AsyncIterator[tuple[openai.AsyncOpenAI, Engine, Gate]]:
    async with (
        Engine(script) as engine,
        running(engine) as gate,
        openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{gate.port}/v1", api_key="none", max_retries=0
        ) as client,
    ):
        yield client, engine, gate


def stream(*events: bytes, done: bool = True) -> Script:
    last = (b"data: [DONE]\n\n",) if done else ()
    return answers(STREAM_HEAD, *(chunk(one) for one in (*events, *last)), b"0\r\n\r\n")


def usage_of(gate: Gate) -> Usage | None:
    (told,) = gate.told.finished_requests
    return told.usage


async def test_tools_are_offered_and_called() -> None:
    said = chat({"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"})
    async with client_before(answers(whole(said))) as (client, engine, gate):
        answer = await client.chat.completions.create(
            model="tiny", messages=QUESTION, tools=[TOOL], tool_choice="auto", max_tokens=8
        )
        await gate.settled()
        assert usage_of(gate) == Usage(7, 3)
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert [call.to_dict() for call in calls] == [CALL]
    received = engine.received[0].json
    assert (received["tools"], received["tool_choice"]) == ([TOOL], "auto")


async def test_the_answer_of_a_tool_goes_back_to_the_engine() -> None:
    talk = [
        *QUESTION,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call-1", "content": "6 m"},
    ]
    said = chat({"message": {"content": "6 m"}})
    async with client_before(answers(whole(said))) as (client, engine, _):
        answer = await client.chat.completions.create(model="tiny", messages=talk, tools=[TOOL])
    assert answer.choices[0].message.content == "6 m"
    assert engine.received[0].json["messages"] == talk


async def test_a_tools_call_is_streamed() -> None:
    parts = [ARGUMENTS[:9], ARGUMENTS[9:]]
    begun = {"index": 0, **CALL, "function": {"name": "tide", "arguments": ""}}
    events = [
        chat_chunk({"role": "assistant", "tool_calls": [begun]}),
        *(
            chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
            for part in parts
        ),
        chat_chunk({}, "tool_calls"),
        event(
            id="chat-1",
            object="chat.completion.chunk",
            created=1,
            model="tiny",
            choices=[],
            usage=USAGE,
        ),
    ]
    async with client_before(stream(*events)) as (client, _, gate):
        got = [
            part
            async for part in await client.chat.completions.create(
                model="tiny", messages=QUESTION, tools=[TOOL], stream=True
            )
        ]
        await gate.settled()
        assert usage_of(gate) == Usage(7, 3)
    calls = [call for part in got for call in part.choices[0].delta.tool_calls or ()]
    assert "".join(call.function.arguments for call in calls) == ARGUMENTS
    assert got[-1].choices[0].finish_reason == "tool_calls"


async def test_logprobs_and_several_choices_come_through() -> None:
    said = chat(
        {"message": {"content": "high"}, "logprobs": LOGPROBS}, {"message": {"content": "low"}}
    )
    async with client_before(answers(whole(said))) as (client, engine, _):
        answer = await client.chat.completions.create(
            model="tiny", messages=QUESTION, n=2, logprobs=True, top_logprobs=1
        )
    assert [choice.message.content for choice in answer.choices] == ["high", "low"]
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.to_dict() == LOGPROBS
    received = engine.received[0].json
    assert (received["n"], received["logprobs"], received["top_logprobs"]) == (2, True, 1)


async def test_an_image_reaches_the_engine_as_it_was_sent() -> None:
    content = [
        {"type": "text", "text": "How high is the tide?"},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
    ]
    said = chat({"message": {"content": "high"}})
    async with client_before(answers(whole(said))) as (client, engine, _):
        await client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": content}]
        )
    assert engine.received[0].json["messages"][0]["content"] == content


async def test_a_response_is_made_whole() -> None:
    tools = [{"type": "function", "strict": True, **TOOL["function"]}]
    async with client_before(answers(whole(json.dumps(response()).encode()))) as (
        client,
        engine,
        gate,
    ):
        answer = await client.responses.create(
            model="tiny", input="How high is the tide?", instructions="Be brief.", tools=tools
        )
        await gate.settled()
        assert usage_of(gate) == Usage(7, 3)
    assert answer.output_text == "It is high."
    received = engine.received[0]
    assert received.line.startswith("POST /v1/responses ")
    assert received.json["tools"] == tools
    assert received.json["instructions"] == "Be brief."


async def test_a_response_is_streamed() -> None:
    begun = response(status="in_progress", output=[], usage=None)
    delta = {"item_id": "m-1", "output_index": 0, "content_index": 0, "logprobs": []}
    events = [
        response_event("response.created", 0, response=begun),
        *(
            response_event("response.output_text.delta", number, delta=text, **delta)
            for number, text in enumerate(["It ", "is ", "high."], start=1)
        ),
        response_event("response.completed", 4, response=response()),
    ]
    async with client_before(stream(*events, done=False)) as (client, _, gate):
        got = [
            one
            async for one in await client.responses.create(
                model="tiny", input="How high is the tide?", stream=True
            )
        ]
        await gate.settled()
        assert usage_of(gate) == Usage(7, 3)
    assert "".join(one.delta for one in got if one.type.endswith("delta")) == "It is high."
    assert got[-1].response.output_text == "It is high."


async def test_a_response_that_breaks_raises_in_the_client() -> None:
    begun = response(status="in_progress", output=[], usage=None)
    broken = stream(response_event("response.created", 0, response=begun), done=False)
    async with client_before(broken) as (client, _, _gate):
        with pytest.raises(openai.APIError):
            async for _one in await client.responses.create(
                model="tiny", input="How high is the tide?", stream=True
            ):
                pass


async def test_embeddings_of_several_texts() -> None:
    data = [
        {"object": "embedding", "index": index, "embedding": [0.25, -0.5 * index]}
        for index in range(2)
    ]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    said = {"object": "list", "model": "tiny", "data": data, "usage": usage}
    async with client_before(answers(whole(json.dumps(said).encode()))) as (client, engine, gate):
        answer = await client.embeddings.create(
            model="tiny", input=["ebb", "flow"], encoding_format="float"
        )
        await gate.settled()
        assert usage_of(gate) == Usage(7, 0)
    assert [one.embedding for one in answer.data] == [[0.25, 0.0], [0.25, -0.5]]
    received = engine.received[0]
    assert received.line.startswith("POST /v1/embeddings ")
    assert received.json["input"] == ["ebb", "flow"]


async def test_what_the_gate_does_not_know_reaches_the_engine_untouched() -> None:
    """But for what would reach another request's memory, wherever a client may hide it."""
    unknown = {"tide_tables": {"Brest": [1, 2.5, None]}, "top_k": 5}
    hidden = {"kv_transfer_params": {"remote_block_ids": [1]}, "priority": -1}
    said = chat({"message": {"content": "high"}})
    async with client_before(answers(whole(said))) as (client, engine, _):
        await client.chat.completions.create(
            model="tiny", messages=QUESTION, extra_body={**unknown, **hidden, "vllm_xargs": hidden}
        )
    received = engine.received[0].json
    assert {key: received[key] for key in unknown} == unknown
    assert "kv_transfer_params" not in engine.received[0].body.decode()
    assert "priority" not in received


async def refuses(_: Received, __: Any) -> None:
    raise AssertionError("the gate answers by itself")


async def test_models_are_listed_without_an_engine() -> None:
    async with client_before(refuses) as (client, _, _gate):
        assert [model.id async for model in client.models.list()] == ["tiny"]
        assert (await client.models.retrieve("tiny")).id == "tiny"
