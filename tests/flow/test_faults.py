"""Whatever fails on the way, the end is the same: no orphan, no duplicate, no lost pod."""

import random

import pytest

from .api_server import Fault
from .moments import crashed
from .scenarios import SCENARIOS, Scenario, image
from .world import World

pytestmark = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
_PLAIN: dict[Scenario, World] = {}


async def play(scenario: Scenario, prepare=lambda world: None) -> World:
    world = scenario.world()
    prepare(world)
    for step in scenario.steps:
        step(world)
        await world.run()
    return world


async def played_plainly(scenario: Scenario) -> World:
    """Return the end of a scenario in which nothing fails; it is played once, and only read."""
    if scenario not in _PLAIN:
        _PLAIN[scenario] = await play(scenario)
    return _PLAIN[scenario]


async def test_every_scenario_ends_ready_with_only_the_wanted_pods(scenario):
    world = await play(scenario)
    assert world.condition("Ready")["status"] == "True", world.condition("Ready")
    asked = sum(found["spec"]["replicas"] for found in world.deployments())
    assert len(world.pods()) == asked
    assert {found["metadata"]["labels"]["tidegate.io/revision"] for found in world.pods()} <= {
        world.status()["revision"]
    }


@pytest.mark.timeout(400)  # a whole history for each write
async def test_a_crash_after_any_write_changes_nothing(scenario):
    plain = scenario.world()
    async for number, world in crashed(plain, scenario.steps):
        assert world.shape() == plain.shape(), f"crash after write {number}"


@pytest.mark.parametrize(
    "fault",
    [Fault(409), Fault(429), Fault(500), Fault(503), Fault(None), Fault(None, after=True)],
    ids=["409", "429", "500", "503", "no answer", "no answer though it was written"],
)
async def test_calls_that_fail_are_made_again(scenario, fault):
    plain = await played_plainly(scenario)

    def fail_every_third(world: World) -> None:
        calls = iter(range(1, 1_000_000))
        world.api.write_fault = lambda verb, document: fault if next(calls) % 3 == 0 else None

    assert (await play(scenario, fail_every_third)).shape() == plain.shape()


async def test_reads_that_fail_are_made_again(scenario):
    plain = await played_plainly(scenario)

    def fail_some(world: World) -> None:
        chance = random.Random(7)
        world.patience = 30
        world.api.read_fault = lambda kind, name: chance.random() < 0.1

    assert (await play(scenario, fail_some)).shape() == plain.shape()


@pytest.mark.parametrize("kind", ["LLMDeployment", "Deployment", "Service", "Pod", "Node"])
async def test_stale_caches_delete_no_pod_that_is_needed(scenario, kind):
    plain = await played_plainly(scenario)
    world = scenario.world()
    for step in scenario.steps:
        world.api.lag = {}
        step(world)
        world.api.lag = {kind: 3}
        await world.run_for(40)
    world.api.lag = {}
    await world.run()
    assert world.shape() == plain.shape()


async def test_clocks_that_jump_change_nothing(scenario):
    plain = await played_plainly(scenario)
    world = scenario.world()
    jump = 3600.0
    for step in scenario.steps:
        step(world)
        for _ in range(6):
            await world.run_for(3)
            world.clock.wall += jump
            jump = -jump
        await world.run()
    assert world.shape() == plain.shape()


async def test_without_any_event_the_timer_alone_gets_there(scenario):
    plain = await played_plainly(scenario)
    world = scenario.world()
    for step in scenario.steps:
        step(world)
        await world.run_for(250, every=10)
    assert world.shape() == plain.shape()


async def test_the_way_does_not_matter(scenario):
    plain = await played_plainly(scenario)
    world = scenario.world()
    for step in scenario.steps:
        world.apply(engine=image("detour"))
        await world.run_for(7)  # in the middle of it
        step(world)
        await world.run()
    assert _division(world) == _division(plain)


def _image(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"]


def _division(world: World):
    return {
        (found["metadata"]["name"], found["spec"]["replicas"], _image(found))
        for found in world.deployments()
    }
