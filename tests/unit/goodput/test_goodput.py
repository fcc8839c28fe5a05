"""The bench of goodput: what it sends, and what it counts as served."""

import json
import random

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from bench.goodput import clients, mixes
from bench.goodput.clients import Visit
from bench.goodput.mixes import MAX_MODEL_LEN, MIXES, Request
from bench.goodput.score import median, score

CAPACITY = {"A": 4.0, "B": 2.0, "liar": 4.0}
SECONDS = 1600.0
SLO = 0.7


def text(words):
    return {"choices": [{"text": words, "finish_reason": None}]}


def end(reason="length"):
    return {"choices": [{"text": "", "finish_reason": reason}]}


USAGE = {"choices": [], "usage": {"total_tokens": 12}}


# what is sent


@pytest.mark.parametrize("load", [0.5, 3.0])
@pytest.mark.parametrize("name", MIXES)
def test_a_load_is_in_times_of_the_capacity(name, load):
    asked = mixes.arrivals(MIXES[name], load, CAPACITY, SECONDS, 1)

    shapes = MIXES[name].shapes
    expected = load * SECONDS * sum(CAPACITY[shape.name] for shape in shapes) / len(shapes)
    assert len(asked) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("name", MIXES)
def test_requests_fit_the_model_and_come_in_order(name):
    asked = mixes.arrivals(MIXES[name], 2.0, CAPACITY, SECONDS, 1)

    assert all(one.prompt_tokens + one.claimed_tokens <= MAX_MODEL_LEN for one in asked)
    assert all(one.output_tokens <= one.claimed_tokens for one in asked)
    assert [one.at_seconds for one in asked] == sorted(one.at_seconds for one in asked)


def test_a_seed_draws_the_same_requests_and_another_one_others():
    first, again, other = (
        mixes.arrivals(MIXES["A"], 1.0, CAPACITY, 20.0, seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_lengths_have_the_means_that_a_mix_promises():
    dice = random.Random(1)
    drawn = [mixes.draw(mixes.A, dice) for _ in range(4000)]

    assert sum(one.prompt_tokens for one in drawn) / len(drawn) == pytest.approx(300, rel=0.1)
    assert sum(one.output_tokens for one in drawn) / len(drawn) == pytest.approx(120, rel=0.1)


def test_a_burst_brings_several_times_the_mean():
    asked = mixes.arrivals(MIXES["bursts"], 1.0, CAPACITY, SECONDS, 1)

    in_bursts = sum(one.at_seconds % mixes.BURST_PERIOD_SECONDS < 2.0 for one in asked)
    assert in_bursts / len(asked) == pytest.approx(0.75, abs=0.05)


# what is counted


def seen(ttft=0.1, *, complete=True, at=10.0, prompt=100, **told):
    one = Visit(Request(at, prompt, 10, 20), sent_at=0.0, status=200, tokens=110, attempts=1)
    one.first_at, one.is_complete = ttft, complete
    one.ended_at = 1.0 if complete else None
    for name, value in told.items():
        setattr(one, name, value)
    return one


def refused(seconds, at=10.0):
    return seen(None, complete=False, at=at, status=429, refusals_seconds=[seconds])


def scored(*visits, preemptions=0):
    return score(visits, 4.0, 10.0, SLO, preemptions, now=9.0)


def test_goodput_is_who_was_served_in_time_and_to_the_end():
    got = scored(seen(), seen(0.71), seen(complete=False), refused(0.002))

    assert got.asked == pytest.approx(0.4)
    assert got.goodput == pytest.approx(0.1)
    assert got.good_tokens == pytest.approx(11.0)
    assert got.refused == pytest.approx(0.1)
    assert got.refusal_p99 == pytest.approx(0.002)


def test_who_came_before_the_part_that_counts_is_seen_in_preemptions_only():
    got = scored(seen(at=1.0), seen(), preemptions=1)

    assert got.goodput == pytest.approx(0.1)
    assert got.preempted_share == pytest.approx(0.5)


def test_who_hung_up_unserved_has_waited_all_that_time():
    assert scored(seen(None, complete=False, status=None)).ttft_p99 == pytest.approx(9.0)


def test_long_and_short_prompts_are_counted_apart():
    got = scored(seen(prompt=10), seen(prompt=10), seen(2.0, prompt=900), seen(prompt=900))

    assert (got.served_short, got.served_long) == (1.0, 0.5)


def test_repeats_are_shown_by_their_median():
    runs = [scored(seen()), scored(seen(), seen()), scored(*[seen() for _ in range(9)])]

    assert median(runs).goodput == pytest.approx(0.2)


# what a client makes of an answer


async def met(events, *, status=200, headers=(), is_done=True):
    """What one client saw of a server that answers so."""

    async def answer(request):
        if status != 200:
            return web.Response(status=status, headers=dict(headers))
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return web.Response(text="".join(lines) + ("data: [DONE]\n\n" if is_done else ""))

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    async with TestServer(app) as server, clients.session() as opened:
        one = Visit(Request(0.0, 5, 5, 20))
        await clients.visit(
            opened, str(server.make_url("")).rstrip("/"), one, random.Random(1), returns=True
        )
        return one


@pytest.mark.parametrize(
    ("events", "is_done", "is_complete"),
    [
        ([text("a"), end(), USAGE], True, True),
        ([text("a"), end("stop")], True, True),
        ([text("a"), end(), USAGE], False, False),
        ([text("a"), USAGE], True, False),
        ([text("a"), end("abort"), USAGE], True, False),
        ([text("a"), {"error": {"message": "the engine is gone"}}], True, False),
    ],
)
async def test_only_an_answer_that_ended_well_is_complete(events, is_done, is_complete):
    one = await met(events, is_done=is_done)

    assert one.ttft_seconds is not None
    assert one.is_complete is is_complete


async def test_a_client_comes_back_when_it_was_told(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(clients.asyncio, "sleep", sleep)
    one = await met([], status=429, headers={"Retry-After": "7", "x-tidegate-reason": "kv-budget"})

    waits = [seconds for seconds in slept if seconds]  # aiohttp itself sleeps for 0
    assert waits == [7.0] * (clients.MOST_ATTEMPTS - 1)
    assert (one.attempts, one.reason) == (clients.MOST_ATTEMPTS, "kv-budget")
    assert len(one.refusals_seconds) == clients.MOST_ATTEMPTS


async def test_who_cannot_connect_is_no_refusal():
    one = Visit(Request(0.0, 5, 5, 20))
    async with clients.session() as opened:
        assert isinstance(opened, aiohttp.ClientSession)
        await clients.visit(opened, "http://127.0.0.1:1", one, random.Random(1), returns=True)

    assert one.error
    assert not one.refusals_seconds
