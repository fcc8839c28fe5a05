"""A canary that is held overnight: the next morning it is judged by the morning."""

import pytest

from .test_canary import CANARY, changed, deployed, go_on, rollout
from .test_canary_faults import settled_on
from .world import World

NIGHT_SECONDS = 16 * 3600
HELD = {**CANARY, "paused": True}


async def next_morning() -> World:
    """A canary that was good for the whole night at its first step, in the moment it goes on."""
    world = await deployed()
    await changed(world)
    await go_on(world, 3)
    await changed(world, rollout=HELD)
    await go_on(world, 16, seconds=NIGHT_SECONDS / 16)
    assert rollout(world)["phase"] == "Canary"
    assert rollout(world)["step"] == 0
    await changed(world)
    return world


@pytest.mark.parametrize("bad", [60.0, 540.0], ids=["a tenth", "nine tenths"])
async def test_a_canary_that_gets_bad_the_next_morning_is_taken_back(bad):
    world = await next_morning()
    world.evidences.bad, world.evidences.bad_from = bad, world.clock.now()
    for _ in range(60):
        await go_on(world, 1)
        assert rollout(world)["phase"] != "Promoting"
    assert rollout(world)["phase"] == "Aborted"
    assert "in this step alone" in rollout(world)["because"]


async def test_a_canary_that_nobody_asks_the_next_morning_is_not_promoted():
    world = await next_morning()
    world.evidences.gone_from = world.clock.now()
    await go_on(world, 90)
    assert rollout(world)["phase"] == "Canary"
    assert rollout(world)["step"] <= 1


async def test_a_canary_that_stays_good_is_promoted_the_next_morning():
    world = await next_morning()
    await settled_on(world, "next")
