"""Engines that fail: what the client sees, and who is asked again."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from tests.gate.engine import (
    DONE,
    STREAM_HEAD,
    Engine,
    Script,
    answers,
    chunk,
    completion,
    event,
    hangs,
    streams,
    then_resets,
    token,
    whole,
)
from tests.gate.running import Answer, Client, ask, eventually, post, running

from tidegate.gate.exchange import Outcome

A, B = token("a"), token("b")
ABORT = token("", "abort")
DEATH = event(error={"message": "EngineCore encountered an issue.", "type": "x", "code": 500})
ROLE = event(choices=[{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
SHORT = {"connect": "500ms", "first_token": "300ms", "between_chunks": "300ms", "total": "2s"}


async def closes(_: object, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def closes_amid(_: object, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + completion()[:-5])
    writer.close()


async def pauses(_: object, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(5)


def after(*parts: bytes, then: Script = closes) -> Script:
    """Stream these bytes, and then do that."""

    async def script(received, writer):  # type: ignore[no-untyped-def]  # a Script
        await answers(STREAM_HEAD, *parts, pause=0.01)(received, writer)
        await then(received, writer)

    return script


AMID_A_STREAM = {
    "resets": then_resets(after(chunk(A), chunk(B), then=answers())),
    "closes": after(chunk(A), chunk(B)),
    "resets amid a chunk": then_resets(after(chunk(A), chunk(B)[:9], then=answers())),
    "ends without [DONE]": after(chunk(A), chunk(B), b"0\r\n\r\n", then=answers()),
    "aborts at its own stop": after(
        chunk(A), chunk(ABORT), chunk(DONE), b"0\r\n\r\n", then=answers()
    ),
    "aborts within one lump": after(
        chunk(A), chunk(B) + chunk(ABORT) + chunk(DONE) + b"0\r\n\r\n", then=answers()
    ),
    "dies with an error event": after(
        chunk(A), chunk(DEATH), chunk(DONE), b"0\r\n\r\n", then=answers()
    ),
    "sends garbage": after(chunk(A), b"zz\r\ngarbage\r\n", then=answers()),
    "lies about a chunk": after(chunk(A), b"3\r\nabcdefgh\r\n", then=answers()),
    "stalls": after(chunk(A), then=pauses),
    "stalls amid an event": after(chunk(A), chunk(b"data: {"), then=pauses),
}


@pytest.mark.parametrize("script", AMID_A_STREAM.values(), ids=AMID_A_STREAM)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_stream_that_breaks_never_looks_complete_and_is_not_sent_twice(
    script: Script, version: str
) -> None:
    async with (
        Engine(script) as engine,
        Engine(streams(A), name="pod-1") as other,
        running(engine, other, deadlines=SHORT) as gate,
    ):
        answer = await ask(gate, post(version=version, stream=True))
        await gate.settled()
    assert answer.status == 200
    assert answer.body.startswith(A)
    assert not answer.is_complete or version == "1.0"
    assert b"[DONE]" not in answer.body
    assert _last_event(answer).startswith(b'data: {"error":{"message":')
    assert (len(engine.received), len(other.received)) == (1, 0)
    assert gate.seats.ends[0][1] in (Outcome.ENGINE_FAILED, Outcome.DEADLINE)
    assert gate.told.last.why is not None


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_break_amid_a_chunk_that_is_under_way_does_not_look_complete(
    version: str,
) -> None:
    long = b"fffff\r\n" + b"x" * 200_000
    script = then_resets(after(chunk(A), long, then=answers()))
    async with Engine(script) as engine, running(engine) as gate:
        answer = await ask(gate, post(version=version, stream=True))
        await gate.settled()
    if version == "1.1":
        assert not answer.is_complete
    else:
        assert _last_event(answer).startswith(b'data: {"error":{"message":')


def _last_event(answer: Answer) -> bytes:
    return answer.body.rstrip().rsplit(b"\n\n", 1)[-1]


BEFORE_A_BYTE: dict[str, tuple[Script, Outcome]] = {
    "closes": (closes, Outcome.ENGINE_FAILED),
    "resets": (then_resets(answers()), Outcome.ENGINE_FAILED),
    "answers 500": (answers(whole(b"{}", "500 Oh")), Outcome.ENGINE_FAILED),
    "is full": (answers(whole(b"{}", "503 Busy")), Outcome.ENGINE_FULL),
    "answers garbage": (answers(b"SSH-2.0-OpenSSH_9\r\n\r\n"), Outcome.ENGINE_FAILED),
    "answers with a page": (
        answers(
            b"HTTP/1.1 200 OK\r\ncontent-type: Text/HTML\r\ncontent-length: 13\r\n\r\n<html></html>"
        ),
        Outcome.ENGINE_FAILED,
    ),
    "answers with bytes": (
        answers(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
            b"content-length: 1\r\n\r\nx"
        ),
        Outcome.ENGINE_FAILED,
    ),
    "answers endlessly": (
        answers(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 99_999),
        Outcome.ENGINE_FAILED,
    ),
    "redirects": (answers(whole(b"", "302 Found", "location: /")), Outcome.ENGINE_FAILED),
    "switches protocols": (
        answers(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
        Outcome.ENGINE_FAILED,
    ),
    "stops in its head": (then_resets(answers(b"HTTP/1.1 200 OK\r\n")), Outcome.ENGINE_FAILED),
    "stops after its head": (then_resets(answers(STREAM_HEAD)), Outcome.ENGINE_FAILED),
    "aborts at once": (streams(ABORT), Outcome.ENGINE_FAILED),
    "aborts after the role": (streams(ROLE, ABORT, pause=0.02), Outcome.ENGINE_FAILED),
    "dies at once": (streams(DEATH), Outcome.ENGINE_FAILED),
    "streams nothing": (after(b"0\r\n\r\n", then=answers()), Outcome.ENGINE_FAILED),
}


@pytest.mark.parametrize(("script", "outcome"), BEFORE_A_BYTE.values(), ids=BEFORE_A_BYTE)
async def test_a_failure_before_the_first_byte_is_made_good_by_another_pod(
    script: Script, outcome: Outcome
) -> None:
    async with (
        Engine(script) as engine,
        Engine(streams(A, B), name="pod-1") as other,
        running(engine, other) as gate,
    ):
        messages = [{"role": "user", "content": "hello"}]
        answer = await ask(gate, post("/v1/chat/completions", stream=True, messages=messages))
        await gate.settled()
    assert (answer.status, answer.is_complete) == (200, True)
    assert answer.body == A + B + DONE
    assert gate.seats.failures == [(engine.pod, outcome)]
    assert gate.told.retries == [("pod-0", outcome)]
    assert gate.told.last.visits == 2
    assert [visit[:3] for visit in gate.told.visits] == [
        ("pod-0", outcome, True),
        ("pod-1", Outcome.FINISHED, False),
    ]
    assert (len(engine.received), len(other.received)) == (1, 1)


@pytest.mark.parametrize(("revision", "told"), [("r1", "r1"), ("r2", "")])
async def test_the_time_that_a_failing_pod_took_is_not_told_of_another_revision(
    revision: str, told: str
) -> None:
    """A canary is compared by times: the old revision must not answer for the canary's."""
    async with (
        Engine(answers(whole(b"{}", "500 Oh")), revision=revision) as engine,
        Engine(streams(A), name="pod-1", revision="r1") as other,
        running(engine, other) as gate,
    ):
        await ask(gate, post(stream=True))
        await gate.settled()
        engine.script = streams(B)
        await ask(gate, post(stream=True))
        await gate.settled()
    assert gate.told.first_token_revisions == [told, revision]
    assert gate.told.last.revision == revision


LEAVING: dict[str, tuple[Script, bool, bool]] = {
    "before the first byte": (hangs, False, False),
    "amid a stream": (after(chunk(A), then=pauses), True, True),
}


@pytest.mark.parametrize(("script", "reads", "is_answered"), LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_is_told_by_whether_the_pod_had_answered(
    script: Script, reads: bool, is_answered: bool
) -> None:
    async with Engine(script) as engine, running(engine) as gate:
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await eventually(lambda: len(engine.received) == 1)
            if reads:
                await client.reader.readuntil(A.rstrip())
        await gate.settled()
    assert gate.told.visits == [("pod-0", Outcome.CLIENT_GONE, True, is_answered)]


async def test_a_client_that_leaves_while_it_waits_for_a_seat_is_told_of_no_pod() -> None:
    async with Engine(streams(A)) as engine, running(engine) as gate:
        gate.seats.is_full = True
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await eventually(lambda: len(gate.seats.waiting) == 1)
        await eventually(lambda: len(gate.told.finished_requests) == 1)
        await gate.settled()
    assert gate.told.visits == []


WHOLE_ANSWERS = {
    "answers garbage": answers(whole(b"upstream connect error")),
    "answers half": answers(whole(completion()[:-5])),
    "answers nothing": answers(whole(b"")),
    "closes amid what only the close would end": closes_amid,
    "aborts": answers(whole(completion("abort"))),
    "is cut off": then_resets(answers(whole(completion())[:-5])),
    "answers 500": answers(whole(b"{}", "500 Oh")),
}


@pytest.mark.parametrize("script", WHOLE_ANSWERS.values(), ids=WHOLE_ANSWERS)
async def test_an_answer_that_is_no_stream_is_judged_before_it_is_passed_on(
    script: Script,
) -> None:
    async with (
        Engine(script) as engine,
        Engine(answers(whole(completion())), name="pod-1") as other,
        running(engine, other) as gate,
    ):
        answer = await ask(gate, post())
        await gate.settled()
    assert (answer.status, answer.body) == (200, completion())
    assert gate.seats.failures == [(engine.pod, Outcome.ENGINE_FAILED)]


async def test_what_a_response_quotes_of_its_request_is_not_held_against_the_engine() -> None:
    quoted = {"finish_reason": "abort"}
    said = json.dumps({"status": "completed", "output": [], "metadata": quoted}).replace(" ", "")
    async with Engine(answers(whole(said.encode()))) as engine, running(engine) as gate:
        answer = await ask(gate, post("/v1/responses", input="hello", metadata=quoted))
        await gate.settled()
    assert (answer.status, answer.body) == (200, said.encode())
    assert gate.seats.failures == []


async def test_a_pod_that_is_gone_is_found_out_at_once() -> None:
    async with (
        Engine(streams(A)) as engine,
        Engine(streams(B), name="pod-1") as other,
        running(engine, other) as gate,
    ):
        await engine.stop()
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.body == B + DONE
    assert gate.seats.failures == [(engine.pod, Outcome.UNREACHABLE)]


async def test_when_every_pod_fails_the_client_learns_it_in_the_openai_shape() -> None:
    async with Engine(then_resets(answers())) as engine, running(engine) as gate:
        answer = await ask(gate, post())
        await gate.settled()
    assert answer.status == 502
    assert answer.headers["x-tidegate-reason"] == "engine-error"
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}


async def test_a_request_under_which_engines_fail_is_kept_from_the_others() -> None:
    names = [f"pod-{number}" for number in range(5)]
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(Engine(then_resets(answers()), name=name))
            for name in names
        ]
        async with running(*engines) as gate:
            answer = await ask(gate, post())
            await gate.settled()
    assert answer.status == 502
    assert sum(len(engine.received) for engine in engines) == 2


async def test_a_kept_connection_that_the_engine_closed_costs_one_more_sending() -> None:
    good = answers(whole(completion()))
    async with Engine([good, closes, good]) as engine, running(engine) as gate:
        assert (await ask(gate, post())).status == 200
        assert (await ask(gate, post())).status == 200
        await gate.settled()
    assert (engine.connections, len(engine.received)) == (2, 3)
    assert gate.seats.failures == []


async def test_a_new_connection_that_the_engine_closed_is_not_tried_again() -> None:
    async with Engine([closes, closes]) as engine, running(engine) as gate:
        assert (await ask(gate, post())).status == 502
        await gate.settled()
    assert len(engine.received) == 1


async def test_idle_connections_that_the_engine_closed_are_forgotten() -> None:
    async with Engine(answers(whole(completion()))) as engine, running(engine) as gate:
        await ask(gate, post())
        engine.drop_idle()
        await asyncio.sleep(0.02)
        assert (await ask(gate, post())).status == 200
        await gate.settled()
    assert len(engine.received) == 2


DEADLINES: dict[str, tuple[Script, str]] = {
    "no first token": (hangs, "ttft-deadline"),
    "a head and no first token": (after(then=pauses), "ttft-deadline"),
}


@pytest.mark.parametrize(("script", "reason"), DEADLINES.values(), ids=DEADLINES)
async def test_an_engine_that_hangs_is_given_up(script: Script, reason: str) -> None:
    async with Engine(script) as engine, running(engine, deadlines=SHORT) as gate:
        answer = await ask(gate, post(stream=True))
        await gate.settled()
        await eventually(lambda: engine.open_connections == 0)
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (504, reason)
    assert gate.seats.ends == [(engine.pod, Outcome.DEADLINE, None)]


ENDLESS = streams(*[A] * 100, pause=0.05)
TOO_LONG: dict[str, tuple[Script, bool, Outcome]] = {
    "a stream at full speed": (ENDLESS, True, Outcome.TOTAL_DEADLINE),
    "what is no stream, and so gives nothing before its end": (
        pauses,
        False,
        Outcome.TOTAL_DEADLINE,
    ),
    "a stream without a token": (pauses, True, Outcome.DEADLINE),
}


@pytest.mark.parametrize(("script", "stream", "outcome"), TOO_LONG.values(), ids=TOO_LONG)
async def test_an_answer_that_takes_too_long_is_the_engines_fault_only_where_it_was_silent(
    script: Script, stream: bool, outcome: Outcome
) -> None:
    """The user says how long an answer may be, and the client how long it is to be."""
    deadlines = {**SHORT, "first_token": "5s", "total": "500ms"}
    async with Engine(script) as engine, running(engine, deadlines=deadlines) as gate:
        answer = await ask(gate, post(stream=stream))
        await gate.settled()
    told = answer.events[-1] if answer.status == 200 else answer.json
    assert (answer.status, answer.is_complete) in ((200, False), (504, True))
    assert told["error"]["code"] == gate.told.last.why == "total-deadline"
    assert gate.seats.ends == [(engine.pod, outcome, None)]
    assert gate.seats.failures == [], "it is not tried elsewhere"


async def test_an_answer_that_is_no_stream_may_take_as_long_as_its_tokens() -> None:
    async def slowly(received, writer):  # type: ignore[no-untyped-def]  # a Script
        await asyncio.sleep(0.6)
        writer.write(whole(completion()))

    async with Engine(slowly) as engine, running(engine, deadlines=SHORT) as gate:
        answer = await ask(gate, post(max_tokens=5))
        await gate.settled()
    assert answer.status == 200


async def test_the_time_to_the_first_token_is_that_of_the_answer_that_the_client_got() -> None:
    """A chat's first event has no token, so another engine may still be asked after it."""
    dies = then_resets(streams(ROLE, pause=0.01, ends=False))
    async with (
        Engine(dies, "u-0") as first,
        Engine(streams(A), "u-1") as second,
        running(first, second) as gate,
    ):
        chat = post(
            "/v1/chat/completions", stream=True, messages=[{"role": "user", "content": "x"}]
        )
        answer = await ask(gate, chat)
        await gate.settled()
    assert answer.status == 200
    assert (len(first.received), len(second.received)) == (1, 1)
    assert gate.told.first_tokens == 1
    assert [one[:2] for one in gate.told.visits] == [
        ("u-0", Outcome.ENGINE_FAILED),
        ("u-1", Outcome.FINISHED),
    ]
