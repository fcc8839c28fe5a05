"""Two deployments that send each other requests: real gates in front of doubles of vLLM."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from e2e.double.process import Double
from tests.gate.running import ask, post
from tests.gate.whole_gate import Gate, gate

SERVED_BY = "x-tidegate-served-by"


@asynccontextmanager
async def two_gates(
    doubles: tuple[Double, Double], first: dict[str, Any], second: dict[str, Any]
) -> AsyncIterator[tuple[Gate, Gate]]:
    """Run the gates of `tiny` and `spill`, each with its own engine and its own changes."""
    peers: dict[str, Gate] = {}
    one, two = doubles
    async with (
        gate(("unified", one), peers=peers, **first) as tiny,
        gate(("unified", two), peers=peers, deployment="spill", **second) as spill,
    ):
        peers |= {"tiny": tiny, "spill": spill}
        yield tiny, spill


def everything(to: str) -> dict[str, Any]:
    return {"shift": {"to": to, "percent": 100}}


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_answer_says_which_deployment_served_it(
    doubles: tuple[Double, Double], streamed: bool
) -> None:
    async with two_gates(doubles, everything("spill"), {}) as (tiny, spill):
        shifted = await ask(tiny, post(stream=streamed, temperature=0))
        own = await ask(spill, post(stream=streamed, temperature=0))
        await tiny.settled()
        await spill.settled()
    assert (shifted.status, shifted.is_complete) == (200, True)
    assert shifted.headers[SERVED_BY] == "spill"
    assert SERVED_BY not in own.headers
    assert (tiny.told.last.shifted_to, tiny.told.last.pod) == ("spill", "")
    assert [one.pod for one in spill.told.finished_requests] == ["unified-0"] * 2


async def test_deployments_that_shift_to_each_other_serve_each_request_once(
    doubles: tuple[Double, Double],
) -> None:
    async with two_gates(doubles, everything("spill"), everything("tiny")) as (tiny, spill):
        there = await ask(tiny, post())
        back = await ask(spill, post())
        await tiny.settled()
        await spill.settled()
    assert [one.status for one in (there, back)] == [200, 200]
    assert [one.headers[SERVED_BY] for one in (there, back)] == ["spill", "tiny"]
    for own in (tiny, spill):
        assert sum(bool(one.pod) for one in own.told.finished_requests) == 1


@pytest.mark.parametrize(("name", "status"), [("llm/tiny", 508), ("llm/third", 200)])
async def test_a_request_that_went_through_this_gate_before_is_refused(
    doubles: tuple[Double, Double], name: str, status: int
) -> None:
    async with gate(("unified", doubles[0])) as tiny:
        answer = await ask(tiny, post("/v1/completions", f"x-tidegate-shifted: {name}"))
        await tiny.settled()
    assert answer.status == status


async def test_what_the_other_deployment_sheds_is_refused_there(
    doubles: tuple[Double, Double],
) -> None:
    shed = {"shed": {"percent": 100, "floor": 6, "reason": "too warm"}}
    async with two_gates(doubles, everything("spill"), shed) as (tiny, spill):
        answer = await ask(tiny, post())
        await tiny.settled()
        await spill.settled()
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (429, "shed")
    assert answer.headers[SERVED_BY] == "spill"
    told = answer.json["error"]["message"]
    assert told.startswith("Load is being shed. The reason: too warm. Try again in ")


async def test_a_share_without_a_reason_is_told_in_two_whole_sentences(
    doubles: tuple[Double, Double],
) -> None:
    shed = {"shed": {"percent": 100}}
    async with two_gates(doubles, everything("spill"), shed) as (tiny, spill):
        answer = await ask(tiny, post())
        await tiny.settled()
        await spill.settled()
    told = answer.json["error"]["message"]
    assert re.fullmatch(r"Load is being shed\. Try again in \d+ s\.", told), told
