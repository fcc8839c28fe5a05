"""Large bodies are read elsewhere: with the same result, and without stopping the event loop."""

import asyncio
import contextlib
import json
import sys
from contextlib import asynccontextmanager

import pytest
from tests.unit.gate.core.asking import head, reader

from tidegate.gate.exchange import Ask, Refusal
from tidegate.gate.shell.large_bodies import LargeBodies
from tidegate.gate.wire.memory import Memory
from tidegate.gate.wire.pair import FirstStep

LONG = "The tide comes in. " * 40_000


@asynccontextmanager
async def large_bodies(memory=None, **settings):
    bodies = LargeBodies(memory or Memory(), **settings)
    try:
        yield bodies
    finally:
        await bodies.close()


def prepared(path="/v1/completions"):
    reading = reader().reading(head(path), "id-1")
    assert not isinstance(reading, Ask | Refusal)
    return reading


def body(**fields) -> bytes:
    return json.dumps({"max_tokens": 8, **fields}).encode()


BODIES = {
    "text": body(prompt="ebb " * 300),
    "token ids": body(prompt=[5] * 900),
    "a stream, whose usage is asked for": body(prompt="ebb", stream=True),
    "fields that are dropped": body(prompt="ebb", priority=1, kv_transfer_params={"a": 1}),
    "too long": body(prompt=LONG),
    "no JSON": LONG.encode(),
    "nothing asked": body(),
}


@pytest.mark.parametrize("asked", BODIES.values(), ids=BODIES)
async def test_it_says_what_reading_here_says(asked):
    reading = prepared()
    async with large_bodies() as bodies:
        assert await bodies.read(reading, asked) == reading.of(asked)


async def test_the_event_loop_goes_on_meanwhile():
    asked = body(prompt=[12345] * 900_000)
    async with large_bodies() as bodies:
        await bodies.read(prepared(), body(prompt="starts the process"))
        reading, turns = asyncio.create_task(bodies.read(prepared(), asked)), 0
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
    assert isinstance(reading.result(), Refusal), "too long for the model"
    assert turns > 100


async def test_the_first_step_of_a_pair_is_made_there_too():
    asked = body(prompt=[5] * 900, stream=True)
    step = FirstStep(prepared().of(asked))
    async with large_bodies() as bodies:
        made = await bodies.read(step, asked)
    assert made == step.of(asked)
    assert json.loads(made.body)["max_tokens"] == 1


async def test_bodies_that_come_together_are_read_in_turn():
    asked = [body(prompt="ebb" * count) for count in range(1, 20)]
    reading = prepared()
    async with large_bodies() as bodies:
        said = await asyncio.gather(*[bodies.read(reading, one) for one in asked])
    assert said == [reading.of(one) for one in asked]


async def test_a_client_that_leaves_disturbs_nobody():
    reading, asked = prepared(), body(prompt="ebb")
    async with large_bodies() as bodies:
        for delay in (0.0, 0.001, 0.05):
            leaving = asyncio.create_task(bodies.read(reading, body(prompt=LONG)))
            await asyncio.sleep(delay)
            leaving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leaving
            assert await bodies.read(reading, asked) == reading.of(asked)


async def has_left(asking):
    """Cancel one who asks, as its visit is when the client hangs up."""
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking


async def test_clients_that_leave_before_their_turn_take_their_bodies_along():
    asked = body(prompt=LONG)
    async with large_bodies() as bodies:
        first = asyncio.create_task(bodies.read(prepared(), body(prompt=LONG)))
        held_before = sys.getrefcount(asked)
        waiting = [asyncio.create_task(bodies.read(prepared(), asked)) for _ in range(20)]
        await asyncio.sleep(0)
        for one in waiting:
            await has_left(one)
        del waiting, one
        await asyncio.sleep(0)  # the loop itself knows the last of them in this turn
        held = sys.getrefcount(asked)

        assert not first.done(), "it was nobody else's turn"
        assert held == held_before
        await first


async def test_the_body_that_is_being_read_counts_until_it_is_read_although_its_client_left():
    asked, memory = body(prompt=LONG), Memory()
    async with large_bodies(memory) as bodies:
        leaving = asyncio.create_task(bodies.read(prepared(), asked))
        await asyncio.sleep(0.01)
        await has_left(leaving)
        assert memory.bodies_bytes == len(asked)

        await bodies.read(prepared(), body(prompt="ebb"))

        assert memory.bodies_bytes == 0


async def test_when_the_process_is_killed_one_request_fails_and_the_next_is_read():
    reading, asked = prepared(), body(prompt="ebb")
    async with large_bodies() as bodies:
        await bodies.read(reading, asked)
        bodies._process.kill()
        said = await bodies.read(reading, asked)
        assert isinstance(said, Ask) or (said.status, said.retry_after_seconds) == (503, 1)
        assert await bodies.read(reading, asked) == reading.of(asked)


async def test_the_process_ends_when_it_has_nothing_to_do():
    reading, asked = prepared(), body(prompt="ebb")
    async with large_bodies(idle_seconds=0.01) as bodies:
        process = await bodies._started()
        await bodies.read(reading, asked)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
        assert await bodies.read(reading, asked) == reading.of(asked)


async def test_the_process_is_ended_with_the_gate():
    async with large_bodies() as bodies:
        await bodies.read(prepared(), body(prompt="ebb"))
        process = bodies._process
    assert process.returncode is not None
