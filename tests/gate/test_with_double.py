"""The whole gate, core and wire, in front of doubles of vLLM in processes of their own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.double.process import Double, free_port
from e2e.engine import metrics, pair
from tests.gate.running import Answer, Client, ask, post
from tests.gate.whole_gate import FLAGS, SLICE, Gate, gate

from tidegate.gate.exchange import Outcome, Pod
from tidegate.gate.wire import exact_count


@pytest.fixture(scope="module")
def pair_of_doubles(model: Path) -> Iterator[tuple[Double, Double]]:
    def engine(role: str) -> Double:
        transfer = {"kv_connector": "NixlConnector", "kv_role": role}
        side = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()),
        }
        flags = (*FLAGS, "--kv-transfer-config", json.dumps(transfer))
        return Double(model, *flags, environment=side)

    with engine("kv_producer") as first, engine("kv_consumer") as second:
        yield first.wait_healthy(), second.wait_healthy()


async def running_on(double: Double) -> float | None:
    scraped = await asyncio.to_thread(metrics.scrape, double.url)
    return scraped.value("vllm:num_requests_running")


async def becomes_idle(double: Double) -> None:
    async with asyncio.timeout(5):
        while await running_on(double):
            await asyncio.sleep(0.02)


def text(answer: Answer) -> str:
    """The text of an answer, streamed or not."""
    chunks = answer.events[:-1] if answer.body.startswith(b"data:") else [answer.json]
    choices = [choice for one in chunks for choice in one["choices"]]
    return "".join(
        one.get("text") or (one.get("delta") or one.get("message") or {}).get("content") or ""
        for one in choices
    )


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_answers_are_those_of_the_engine(
    doubles: tuple[Double, Double], path: str, streamed: bool
) -> None:
    messages = [{"role": "user", "content": "hello there"}]
    prompt = {"messages": messages} if "chat" in path else {"prompt": "hello there"}
    raw = post(path, stream=streamed, max_tokens=24, temperature=0, ignore_eos=True, **prompt)
    async with gate(*(("unified", one) for one in doubles)) as g:
        answer = await ask(g, raw)
        await g.settled()
        plain = await ask(doubles[0], raw)
    assert (answer.status, answer.is_complete) == (200, True)
    assert text(answer) == text(plain) != ""
    assert g.told.last.usage is not None
    assert g.told.last.usage.output_tokens == 24
    assert b'"usage"' not in answer.body or not streamed


async def test_a_client_that_leaves_frees_the_engine(doubles: tuple[Double, Double]) -> None:
    async with gate(("unified", doubles[0])) as g:
        async with Client.to(g) as client:
            client.send(post(stream=True, max_tokens=1900, ignore_eos=True))
            await client.reader.readuntil(b"data:")
            assert await running_on(doubles[0]) == 1
            assert g.reserved_blocks() > 0
        await g.settled()
        await becomes_idle(doubles[0])
    assert g.told.last.outcome is Outcome.CLIENT_GONE


async def test_an_engine_that_is_killed_amid_streams_ends_them_as_broken(model: Path) -> None:
    with Double(model, *FLAGS) as double:
        double.wait_healthy()
        async with gate(("unified", double)) as g, Client.to(g) as client:
            client.send(post(stream=True, max_tokens=1900, ignore_eos=True))
            await client.reader.readuntil(b"data:")
            double.process.kill()
            said = await client.reader.read()
            await g.settled()
    assert said.rstrip().rsplit(b"\n\n", 1)[-1].find(b'data: {"error"') >= 0
    assert b"[DONE]" not in said
    assert g.told.last.outcome is Outcome.ENGINE_FAILED


async def test_an_engine_that_stops_at_once_ends_streams_as_broken(model: Path) -> None:
    """It answers 200, a usage chunk and `[DONE]`, as if all had been said."""
    with Double(model, *FLAGS) as double:
        double.wait_healthy()
        async with gate(("unified", double)) as g, Client.to(g) as client:
            client.send(post(stream=True, max_tokens=1900, ignore_eos=True))
            await client.reader.readuntil(b"data:")
            double.process.terminate()
            said = await client.reader.read()
            await g.settled()
    assert b'"error"' in said
    assert b"[DONE]" not in said
    assert b"abort" not in said


async def test_the_ledger_is_empty_after_many_requests_of_all_kinds(
    doubles: tuple[Double, Double],
) -> None:
    dice = random.Random(1)

    async def one(g: Gate) -> int:
        async with Client.to(g) as client:
            client.send(
                post(
                    stream=dice.random() < 0.7,
                    prompt=[5] * dice.randint(1, 900),
                    max_tokens=dice.randint(1, 200),
                    n=dice.choice([1, 1, 1, 2]),
                )
            )
            if dice.random() < 0.3:
                await asyncio.sleep(dice.random() * 0.2)
                return 0
            return (await client.answer(20)).status

    async with gate(*(("unified", one) for one in doubles)) as g:
        statuses = [s for _ in range(5) for s in await asyncio.gather(*[one(g) for _ in range(60)])]
        await g.settled()
        for double in doubles:
            await becomes_idle(double)
    assert set(statuses) <= {0, 200, 429}
    assert statuses.count(200) > 50


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_pair_moves_the_kv_cache_and_says_what_one_engine_says(
    pair_of_doubles: tuple[Double, Double], streamed: bool
) -> None:
    first, second = pair_of_doubles
    prompt = pair.fresh_prompt(300)
    raw = post(prompt=prompt, stream=streamed, max_tokens=16, temperature=0, ignore_eos=True)
    before = await asyncio.to_thread(pair.tokens_by_source, second.url)
    async with gate(("prefill", first), ("decode", second)) as g:
        answer = await ask(g, raw)
        await g.settled()
        after = await asyncio.to_thread(pair.tokens_by_source, second.url)
        alone = await ask(first, raw)
    assert text(answer) == text(alone) != ""
    moved = {source: after[source] - before[source] for source in pair.SOURCES}
    assert moved == {"external_kv_transfer": 300, "local_compute": 0, "local_cache_hit": 0}
    assert g.told.prefills == g.told.transfers == 1


async def test_a_pair_of_engines_is_probed(pair_of_doubles: tuple[Double, Double]) -> None:
    first, second = pair_of_doubles
    async with gate(("prefill", first), ("decode", second)) as g:
        prefill = Pod("p", "127.0.0.1", first.port, "prefill", "r1", "s")
        decode = Pod("d", "127.0.0.1", second.port, "decode", "r1", "s")
        probed = await g.server.probe(prefill, decode)
    assert probed.is_ok, probed.message


LONG = " ".join(f"tide {number} ebbs, and {number * 7} flows;" for number in range(40))


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_very_long_prompt_is_counted_by_the_engine_before_room_is_kept(
    doubles: tuple[Double, Double], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_count, "LONG_PROMPT_TOKENS", 100)
    messages = [{"role": "user", "content": LONG}]
    prompt = {"messages": messages} if "chat" in path else {"prompt": LONG}
    async with gate(("unified", doubles[0])) as g:
        for _ in range(2):  # the second time it is known
            answer = await ask(g, post(path, **prompt))
            assert answer.status == 200
        await g.settled()
    for told in g.told.finished_requests:
        assert told.usage is not None
        assert told.prompt_tokens == told.usage.prompt_tokens


async def test_what_the_engine_counted_is_certain(
    doubles: tuple[Double, Double], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate would be told what it has at least."""
    monkeypatch.setattr(exact_count, "LONG_PROMPT_TOKENS", 100)
    small = [{**SLICE, "name": "tiny-unified", "pool": "unified", "kv_blocks": 1}]
    async with gate(("unified", doubles[0])) as g, gate(("unified", doubles[0]), slices=small) as s:
        served = await ask(g, post(prompt=LONG))
        refused = await ask(s, post(prompt=LONG))
        await g.settled()
        await s.settled()
    tokens = served.json["usage"]["prompt_tokens"]
    assert refused.status == 400
    assert f"A prompt of {tokens} tokens takes" in refused.json["error"]["message"]


@pytest.mark.parametrize("limit", ["COUNT_SECONDS", "MOST_AT_ONCE"])
async def test_where_the_engine_does_not_count_in_time_the_estimate_stays(
    doubles: tuple[Double, Double], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_count, "LONG_PROMPT_TOKENS", 100)
    monkeypatch.setattr(exact_count, limit, 0)
    async with gate(("unified", doubles[0])) as g:
        answer = await ask(g, post(prompt=LONG))
        await g.settled()
    assert answer.status == 200
    assert g.told.last.prompt_tokens == round(len(LONG) / 4)


async def test_a_client_that_leaves_while_its_prompt_is_counted_leaves_nothing(
    doubles: tuple[Double, Double], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_count, "LONG_PROMPT_TOKENS", 100)
    async with gate(("unified", doubles[0])) as g:
        for number in range(5):
            async with Client.to(g) as client:
                client.send(post(prompt=f"{LONG} {number}"))
                await asyncio.sleep(0.002 * number)
        await g.settled()
