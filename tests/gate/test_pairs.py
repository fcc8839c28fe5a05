"""Two steps: the prompt on one engine, the answer from another."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.gate.engine import (
    DONE,
    Engine,
    Received,
    Script,
    answers,
    completion,
    hangs,
    streams,
    then_resets,
    token,
    usage_event,
    whole,
)
from tests.gate.running import Client, ask, eventually, post, running
from tests.gate.whole_gate import SLICE
from tests.gate.whole_gate import gate as whole_gate

from tidegate.gate.exchange import Ask, Outcome, Pod, Reading, Refusal, Why
from tidegate.gate.wire import pair, visit

TRANSFER = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "e",
    "remote_request_id": "cmpl-x",
    "remote_host": "10.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
}
REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


PREFILLS = answers(whole(completion(kv_transfer_params=TRANSFER)))
DECODES = streams(token("a"), token("b"), usage_event())
SERVICES = {"prefill": "tiny-prefill", "decode": "tiny-decode"}


def loses_kv(lost: Script) -> Script:
    """Write this for what comes with a transfer; answer what comes without."""

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        await (lost if b"kv_transfer_params" in received.body else DECODES)(received, writer)

    return script


FAILS = b'{"error": {"message": "KV load failed", "code": 500}}'
LOSSES = {
    "a status": answers(whole(FAILS, "500 Internal Server Error")),
    "an event": streams(b"data: " + FAILS + b"\n\n"),
}


def prefill(script: Script | list[Script], name: str = "p-0") -> Engine:
    return Engine(script, name, "prefill")


def decode(script: Script | list[Script], name: str = "d-0") -> Engine:
    return Engine(script, name, "decode")


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_the_prompt_goes_to_one_engine_and_the_answer_comes_from_another(
    limit: str,
) -> None:
    asked = {
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "min_tokens": 4,
        "logprobs": True,
        "top_logprobs": 2,
        limit: 64,
        "unknown": {"kept": True},
        "kv_transfer_params": {"do_remote_prefill": True},
    }
    path = "/v1/chat/completions"
    async with prefill(PREFILLS) as p, decode(DECODES) as d, running(p, d, services=SERVICES) as g:
        answer = await ask(g, post(path, "x-request-id: mine", **asked))
        await g.settled()
    assert answer.body == token("a") + token("b") + DONE
    first, second = p.received[0].json, d.received[0].json
    assert first["kv_transfer_params"] == REMOTE_DECODE
    assert (first["stream"], first["max_tokens"], first[limit]) == (False, 1, 1)
    assert not {"stream_options", "min_tokens", "logprobs", "top_logprobs"} & set(first)
    assert second["kv_transfer_params"] == TRANSFER
    assert {key: second[key] for key in asked if key != "kv_transfer_params"} == {
        key: value for key, value in asked.items() if key != "kv_transfer_params"
    }
    assert p.received[0].line == d.received[0].line == f"POST {path} HTTP/1.1"
    assert p.received[0].headers["x-request-id"] == d.received[0].headers["x-request-id"] == "mine"
    assert g.seats.prefills == g.told.prefills == g.told.transfers == 1
    assert g.told.last.prefill == "p-0"
    assert g.told.last.pod == "d-0"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"n": 2}),
        ("/v1/completions", {"prompt": ["a", "b"]}),
        ("/v1/completions", {"echo": True, "logprobs": 1}),
        ("/v1/responses", {"input": "a " * 2000}),
        ("/v1/embeddings", {"input": "a"}),
        ("/tokenize", {}),
    ],
)
async def test_what_cannot_be_split_goes_to_the_decode_engine_alone(
    path: str, body: dict[str, object]
) -> None:
    script = answers(whole(completion()))
    async with (
        prefill(PREFILLS) as p,
        decode(script) as d,
        whole_gate(("prefill", p), ("decode", d)) as gate,
    ):
        assert (await ask(gate, post(path, **body))).status == 200
        await gate.settled()
        page, _ = gate.admissions.view(0.0, 0.0).pods
    assert p.received == []
    assert "kv_transfer_params" not in d.received[0].json
    assert (gate.told.last.prefill, gate.told.last.pod) == ("", "decode-1")
    assert (gate.told.prefills, gate.told.transfers) == (0, 0)
    assert page.prefill_tokens_per_second == SLICE["prefill_tokens_per_second"]


PREFILL_FAILS: dict[str, tuple[Script, Outcome]] = {
    "resets": (then_resets(answers()), Outcome.ENGINE_FAILED),
    "answers 500": (answers(whole(b"{}", "500 Oh")), Outcome.ENGINE_FAILED),
    "is full": (answers(whole(b"{}", "503 Busy")), Outcome.ENGINE_FULL),
    "gives no parameters": (answers(whole(completion())), Outcome.ENGINE_FAILED),
    "aborts": (
        answers(whole(completion("abort", kv_transfer_params=None))),
        Outcome.ENGINE_FAILED,
    ),
    "answers garbage": (answers(whole(b"garbage")), Outcome.ENGINE_FAILED),
}


@pytest.mark.parametrize(("script", "outcome"), PREFILL_FAILS.values(), ids=PREFILL_FAILS)
async def test_a_prefill_that_fails_is_made_good_by_another_prefill_pod(
    script: Script, outcome: Outcome
) -> None:
    async with (
        prefill(script) as bad,
        prefill(PREFILLS, "p-1") as good,
        decode(DECODES) as d,
        running(bad, good, d, services=SERVICES) as gate,
    ):
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert answer.body == token("a") + token("b") + DONE
    assert gate.seats.failures == [(bad.pod, outcome)]
    assert len(d.received) == 1


@pytest.mark.parametrize(
    ("prefills", "decodes", "blamed"),
    [(hangs, DECODES, "prefill"), (PREFILLS, hangs, "decode")],
    ids=["prefill hangs", "decode hangs"],
)
async def test_pods_that_hang_are_left_out_and_not_the_other_half_of_their_pairs(
    prefills: Script, decodes: Script, blamed: str
) -> None:
    async with (
        prefill(prefills) as p0,
        prefill(prefills) as p1,
        decode(decodes) as d0,
        decode(decodes) as d1,
        whole_gate(
            *(("prefill", p0), ("prefill", p1), ("decode", d0), ("decode", d1)),
            deadlines={"first_token": "200ms"},
        ) as gate,
    ):
        said = await asyncio.gather(*(ask(gate, post(stream=True)) for _ in range(8)))
        await gate.settled()
        ejected = gate.ejected()
    assert [answer.status for answer in said] == [504] * 8
    assert {name.split("-")[0] for name in ejected} == {blamed}


async def test_without_a_prefill_pod_that_works_the_decode_engine_does_it_alone() -> None:
    script = answers(whole(b"{}", "500 Oh"))
    async with (
        prefill(script) as p,
        decode(DECODES) as d,
        running(p, d, services=SERVICES) as gate,
    ):
        assert (await ask(gate, post(stream=True))).is_complete
        await gate.settled()
    assert "kv_transfer_params" not in d.received[0].json
    assert gate.seats.failures == [(p.pod, Outcome.ENGINE_FAILED)]


@pytest.mark.parametrize("characters", [100, visit.LARGE_BYTES])
async def test_a_large_body_is_made_anew_where_it_stops_no_stream(characters: int) -> None:
    readings: list[Reading] = []

    async def read_large(reading: Reading, body: bytes) -> Ask | Refusal:
        readings.append(reading)
        return reading.of(body)

    prompt = "a " * (characters // 2)
    async with (
        prefill(PREFILLS) as p,
        decode(DECODES) as d,
        running(p, d, services=SERVICES, read_large=read_large, max_model_len=10**6) as gate,
    ):
        answer = await ask(gate, post(stream=True, prompt=prompt))
        await gate.settled()
    assert answer.body == token("a") + token("b") + DONE
    first, second = p.received[0].json, d.received[0].json
    assert first["prompt"] == second["prompt"] == prompt
    assert (first["max_tokens"], first["kv_transfer_params"]) == (1, REMOTE_DECODE)
    assert len(readings) == (2 if characters >= visit.LARGE_BYTES else 0)


async def test_when_a_large_body_cannot_be_made_anew_nobody_is_blamed() -> None:
    refusal = Refusal(503, Why.QUEUE_FULL, "not now", retry_after_seconds=1)

    async def read_large(reading: Reading, body: bytes) -> Ask | Refusal:
        return refusal if isinstance(reading, pair.FirstStep) else reading.of(body)

    async with (
        prefill(PREFILLS) as p,
        decode(DECODES) as d,
        running(p, d, services=SERVICES, read_large=read_large, max_model_len=10**6) as gate,
    ):
        answer = await ask(gate, post(prompt="a" * visit.LARGE_BYTES))
        await gate.settled()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert p.received == d.received == []
    assert gate.seats.ends == [(d.pod, Outcome.CLIENT_GONE, None)]
    assert (gate.told.last.outcome, gate.told.last.why) == (None, Why.QUEUE_FULL)
    assert (gate.told.visits, gate.told.last.visits) == ([], 0)


async def test_nor_is_the_pod_that_was_to_be_asked_in_place_of_one_that_failed() -> None:
    steps: list[Reading] = []

    async def read_large(reading: Reading, body: bytes) -> Ask | Refusal:
        steps.extend([reading] * isinstance(reading, pair.FirstStep))
        return Refusal(503, Why.QUEUE_FULL, "not now") if len(steps) == 2 else reading.of(body)

    fails = answers(whole(b'{"error": {"code": 500}}', "500 Internal Server Error"))
    async with (
        prefill(fails, "p-0") as p,
        prefill(PREFILLS, "p-1") as other,
        decode(DECODES) as d,
        running(p, other, d, services=SERVICES, read_large=read_large, max_model_len=10**6) as gate,
    ):
        answer = await ask(gate, post(prompt="a" * visit.LARGE_BYTES))
        await gate.settled()
    assert answer.status == 503
    assert gate.seats.ends[-1][1] is Outcome.CLIENT_GONE
    assert (gate.told.last.outcome, gate.told.last.why) == (None, Why.QUEUE_FULL)
    assert [one[1] for one in gate.told.visits] == [Outcome.ENGINE_FAILED]
    assert gate.told.last.visits == 1


async def test_the_prefill_engines_refusal_is_the_clients() -> None:
    body = b'{"error": {"message": "unknown parameter", "code": 400}}'
    script = answers(whole(body, "400 Bad Request"))
    async with (
        prefill(script) as p,
        decode(DECODES) as d,
        running(p, d, services=SERVICES) as gate,
    ):
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    assert (answer.status, answer.body) == (400, body)
    assert d.received == []
    assert gate.seats.ends == [(d.pod, Outcome.ENGINE_REFUSED, None)]
    assert gate.told.visits == [("d-0", Outcome.ENGINE_REFUSED, True, False)]


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("may_prefill", [True, False])
async def test_a_transfer_that_fails_is_made_good_without_one(
    lost: Script, may_prefill: bool
) -> None:
    async with (
        prefill(PREFILLS) as p,
        decode(loses_kv(lost)) as d,
        whole_gate(("prefill", p), ("decode", d), decode_may_prefill=may_prefill) as gate,
    ):
        answer = await ask(gate, post(stream=True))
        await gate.settled()
    if not may_prefill:
        assert answer.status == 502
        return
    assert answer.body == token("a") + token("b") + DONE
    first, second = (one.json for one in d.received)
    assert "kv_transfer_params" in first
    assert "kv_transfer_params" not in second
    assert gate.told.retries == [("decode-1", Outcome.ENGINE_FAILED)]
    assert [one[:3] for one in gate.told.visits] == [
        ("decode-1", Outcome.ENGINE_FAILED, True),
        ("decode-1", Outcome.FINISHED, False),
    ]


@pytest.mark.parametrize("pods", [1, 2])
async def test_while_no_transfer_works_decode_prefills_and_nobody_is_asked_twice(pods: int) -> None:
    lost = loses_kv(LOSSES["a status"])
    async with AsyncExitStack() as stack:
        ps = [await stack.enter_async_context(prefill(PREFILLS)) for _ in range(pods)]
        ds = [await stack.enter_async_context(decode(lost)) for _ in range(pods)]
        engines = [*(("prefill", p) for p in ps), *(("decode", d) for d in ds)]
        gate = await stack.enter_async_context(whole_gate(*engines))
        said = [await ask(gate, post(stream=True)) for _ in range(20)]
        await gate.settled()
        ejected = gate.ejected()
    assert {answer.status for answer in said} == {200}
    in_vain = sum(len(p.received) for p in ps)
    assert in_vain == 2  # one prompt has one prefill pod
    assert sum(len(d.received) for d in ds) == 20 + in_vain
    assert len(gate.told.retries) == in_vain
    assert not ejected


async def test_a_client_that_leaves_during_prefill_stops_it() -> None:
    async with prefill(hangs) as p, decode(DECODES) as d, running(p, d, services=SERVICES) as gate:
        async with Client.to(gate) as client:
            client.send(post(stream=True))
            await eventually(lambda: len(p.received) == 1)
        await eventually(lambda: p.open_connections == 0)
        await gate.settled()
    assert d.received == []
    assert gate.seats.ends == [(d.pod, Outcome.CLIENT_GONE, None)]


async def test_a_transfer_that_hangs_meets_the_deadline() -> None:
    deadlines = {"first_token": "300ms"}
    async with (
        prefill(PREFILLS) as p,
        decode(hangs) as d,
        running(p, d, services=SERVICES, deadlines=deadlines) as gate,
    ):
        answer = await ask(gate, post(stream=True))
        await gate.settled()
        await eventually(lambda: d.open_connections == 0)
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (504, "ttft-deadline")


async def test_a_probe_says_whether_a_pair_can_serve() -> None:
    fails = answers(whole(b'{"error": {"message": "hash mismatch", "code": 500}}', "500 No"))
    script = answers(whole(completion()))
    async with (
        prefill(PREFILLS) as p,
        decode([script, fails]) as d,
        running(p, d, services=SERVICES) as gate,
    ):
        good = await gate.server.probe(p.pod, d.pod)
        assert (good.is_ok, good.step, good.outcome) == (True, "decode", Outcome.FINISHED)
        assert p.received[0].json["kv_transfer_params"] == REMOTE_DECODE
        assert d.received[0].json["kv_transfer_params"] == TRANSFER
        bad = await gate.server.probe(p.pod, d.pod)
        assert (bad.is_ok, bad.step) == (False, "decode")
        assert "hash mismatch" in bad.message
        gone = Pod("p-9", "127.0.0.1", 1, "prefill", "r1", "slice")
        lost = await gate.server.probe(gone, d.pod)
        assert (lost.is_ok, lost.step, lost.outcome) == (False, "prefill", Outcome.UNREACHABLE)
        d.script = script
        alone = await gate.server.probe(None, d.pod)
        assert alone.is_ok
    assert gate.seats.given == 0


async def test_a_probe_asks_by_a_name_that_the_revision_knows() -> None:
    """One that has no weight yet is tried before it gets any."""
    serves = {"models": ["new", "alias"], "max_model_len": 512}
    revisions = [
        {"name": "r0", "weight": 1000},
        {"name": "r1", "weight": 0, "serves": serves},
    ]
    async with (
        prefill(PREFILLS) as p,
        decode(answers(whole(completion()))) as d,
        running(p, d, services=SERVICES, revisions=revisions) as gate,
    ):
        assert (await gate.server.probe(p.pod, d.pod)).is_ok
    assert [engine.received[0].json["model"] for engine in (p, d)] == ["new", "new"]
    await asyncio.sleep(0)
