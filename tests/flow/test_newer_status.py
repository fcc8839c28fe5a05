"""The operator goes back to an earlier version, and finds a status that the later one wrote."""

import copy

import pytest

from tidegate.api.reasons import Reason

from .evidences import Evidences
from .test_canary import CANARY, changed, deployed, go_on, rollout, until, weights
from .test_overload import CHAT, overloaded, shed
from .world import World

KEY = ("LLMDeployment", "default", "chat")
KEEPING = {**CANARY, "keepFailedFor": "1h"}


async def aborted() -> World:
    """Return a world whose new revision has failed, with its pods kept to be looked at."""
    world = await deployed(rollout=KEEPING)
    await changed(world, rollout=KEEPING)
    world.evidences.bad = 200.0
    await until(world, "Aborted")
    world.evidences = Evidences()
    return world


def goes_back(world: World, **changes) -> None:
    """Write what a newer version would have written into the status, and begin an older process."""
    document = copy.deepcopy(world.api.objects[KEY])
    for path, value in changes.items():
        *parts, last = path.split("__")
        within = document["status"]
        for part in parts:
            within = within[int(part) if part.isdigit() else part]
        within[last] = value
    world.api.put(document)
    world.restart()


def lose_labels(world: World):
    """Take GPU feature discovery's labels away; return what puts them back."""
    key = next(key for key in world.api.objects if key[0] == "Node")
    node = world.api.objects[key]
    world.api.put({**node, "metadata": {**node["metadata"], "labels": {}}})
    return lambda: world.api.put(node)


@pytest.mark.parametrize(
    "path",
    [
        "later",
        "rollout__later",
        "rollout__verdicts__later",
        "rollout__failed__0__later",
        "conditions__0__later",
        "plan__0__perGpu__later",
    ],
)
async def test_a_field_that_it_does_not_know_changes_nothing_of_the_rollout(path):
    world = await aborted()
    stable = rollout(world)["stable"]
    failed = rollout(world)["failed"]
    conditions = world.status()["conditions"]

    goes_back(world, **{path: 1})
    await go_on(world, 5)

    assert rollout(world)["phase"] == "Aborted"
    assert rollout(world)["failed"] == failed
    assert weights(world)[stable] == 1000
    assert world.status()["conditions"] == conditions


async def test_trouble_meanwhile_promotes_no_failed_revision():
    world = await aborted()
    stable = rollout(world)["stable"]

    goes_back(world, later=1)
    put_back = lose_labels(world)
    await go_on(world, 6, seconds=20)
    assert world.condition("Ready")["reason"] == Reason.GPU_UNKNOWN
    assert rollout(world)["failed"]
    put_back()
    await go_on(world, 8)

    assert rollout(world)["phase"] == "Aborted"
    assert weights(world)[stable] == 1000


@pytest.mark.parametrize("change", [{"rollout__phase": "Warming"}, {"rollout__step": "two"}])
async def test_a_rollout_that_it_cannot_read_stands_still_and_is_kept_as_it_is(change):
    world = await aborted()
    goes_back(world, **change)
    as_written, before = rollout(world), weights(world)

    await go_on(world, 5)
    put_back = lose_labels(world)
    await go_on(world, 5, seconds=20)
    put_back()
    await go_on(world, 5)

    assert rollout(world) == as_written
    assert weights(world) == before
    stalled = world.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", Reason.ROLLOUT_UNREADABLE)
    assert "status.rollout" in stalled["message"]
    assert len(world.ready("unified")) == 3


async def test_a_rollout_that_it_cannot_read_is_written_once():
    world = await aborted()
    goes_back(world, rollout__phase="Warming")
    await go_on(world, 5)
    writes = len(world.api.writes)
    await go_on(world, 5)
    assert len(world.api.writes) == writes


async def test_taking_the_unreadable_rollout_away_lets_the_operator_go_on():
    world = await aborted()
    goes_back(world, rollout__phase="Warming")
    await go_on(world, 3)
    document = world.api.objects[KEY]
    status = {name: value for name, value in document["status"].items() if name != "rollout"}
    world.api.put({**document, "status": status})
    await go_on(world, 3)
    assert world.condition("Stalled")["reason"] != Reason.ROLLOUT_UNREADABLE
    assert "phase" in rollout(world)


async def test_shares_of_the_slow_loop_hold_on_though_the_status_has_more_than_it_knows():
    world = await overloaded()
    before = shed(world)
    document = copy.deepcopy(world.api.objects[KEY])
    document["status"] |= {"later": 1, "overload": {**document["status"]["overload"], "later": 1}}
    world.api.put(document)
    world.restart()

    await world.reconcile(CHAT)

    assert shed(world) == before > 0
