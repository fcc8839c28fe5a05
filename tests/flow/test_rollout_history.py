"""The history of a rollout is kept beside it, survives the operator, and is never in its way."""

import pytest

from tidegate.core.canary import history
from tidegate.core.names import COMPONENT, LABEL_DEPLOYMENT
from tidegate.flow.history import WRITE_SECONDS
from tidegate.flow.ports import ReadFailed

from .api_server import Fault
from .documents import labels_of
from .test_canary import changed, deployed, rollout, until, watch
from .world import World

NAME = "chat-rollout"
KEY = ("ConfigMap", "default", NAME)


def kept(world: World):
    """Return the looks that are stored, all of which can be read."""
    found = history.decode(world.api.objects[KEY]["data"])
    assert found.unreadable == 0
    return found.looks


def is_history(document) -> bool:
    return document["metadata"]["name"] == NAME


def times_written(world: World) -> int:
    return sum(name == NAME for _, _, name in world.api.writes)


async def pass_on(world: World, until_holds, rounds: int = 220) -> list[str]:
    """Let time pass until something holds; return what the log was told."""
    told: list[str] = []
    for _ in range(rounds):
        if until_holds():
            return told
        told += (await world.reconcile()).notes
        world.step()
        watch(world)
        world.clock.pass_by(10.0)
    raise AssertionError(f"never: {rollout(world)}")


def has_looks(world: World, least: int = 1):
    return lambda: KEY in world.api.objects and len(kept(world)) >= least


def is_promoted(world: World):
    before = rollout(world)["stable"]
    return lambda: rollout(world)["phase"] == "Settled" and rollout(world)["stable"] != before


async def begun() -> World:
    """Return a world whose canary was looked at, and is not at its end."""
    world = await deployed()
    await changed(world)
    await pass_on(world, has_looks(world, 3))
    assert rollout(world)["phase"] == "Canary"
    return world


async def test_each_look_is_kept_with_what_both_sides_measured():
    world = await begun()
    old, new = rollout(world)["stable"], rollout(world)["canary"]
    await until(world, "Settled")
    looks = kept(world)

    assert {(one.revision, one.stable) for one in looks} == {(new, old)}
    assert [one.step for one in looks] == sorted(one.step for one in looks)
    assert {one.step for one in looks} == {1, 2}
    assert looks[-1].verdict == "Pass", "the look that led to the promotion"
    judged = {one.metric: one for one in looks[-1].metrics}
    assert judged["survival"].canary == judged["survival"].stable == 1.0
    assert judged["ttftP95"].samples == judged["ttftP95"].stable_samples > 0
    assert judged["ttftP95"].margin == 0.2


async def test_it_belongs_to_the_deployment_and_goes_with_it():
    world = await begun()
    found = world.api.objects[KEY]

    assert labels_of(found)[LABEL_DEPLOYMENT] == "chat"
    assert labels_of(found)[COMPONENT] == "rollout"
    world.api.remove(("LLMDeployment", "default", "chat"))
    assert KEY not in world.api.objects


async def test_it_is_written_after_the_status_and_only_now_and_then():
    world = await begun()
    since, looked = world.clock.ticks, len(kept(world))
    written = times_written(world)
    await pass_on(world, has_looks(world, looked + 6))

    most = (world.clock.ticks - since) / WRITE_SECONDS + 1
    assert times_written(world) - written <= most


async def test_what_takes_a_canary_back_is_written_at_once_and_after_the_verdict():
    world = await begun()
    world.evidences.bad = 200.0
    await until(world, "Aborting")
    last = kept(world)[-1]

    assert last.verdict == "Fail"
    assert "survival" in last.message
    verbs = [verb for verb, _, name in world.api.writes if name in (NAME, "chat")]
    assert verbs[-1] == "apply", "the history comes last"


async def test_an_operator_that_is_restarted_goes_on_with_it():
    world = await begun()
    before = kept(world)
    world.restart()
    notes = await pass_on(world, has_looks(world, len(before) + 2))

    assert kept(world)[: len(before)] == before
    assert notes == []


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_one_that_is_lost_is_begun_anew_and_the_log_says_so(is_restarted):
    world = await begun()
    world.api.remove(KEY)
    if is_restarted:
        world.restart()
    notes = await pass_on(world, is_promoted(world))

    assert kept(world)
    assert len(notes) == 1
    assert "begins anew" in notes[0]


async def test_one_that_is_garbage_is_begun_anew_and_the_log_says_so():
    world = await begun()
    world.api.put({**world.api.objects[KEY], "data": {history.KEY: "no\nlook\n"}})
    notes = await pass_on(world, is_promoted(world))

    assert kept(world)
    assert len(notes) == 1
    assert "2 lines" in notes[0]


@pytest.mark.parametrize("status", [403, 409, 500, None])
async def test_a_history_that_cannot_be_written_stops_no_rollout(status):
    world = await deployed()
    world.api.write_fault = lambda verb, document: Fault(status) if is_history(document) else None
    await changed(world)
    notes = await pass_on(world, is_promoted(world))

    assert KEY not in world.api.objects
    assert bool(notes) == (status == 403), "what passes by itself is no news"


async def test_a_history_that_cannot_be_read_stops_no_rollout():
    world = await deployed()
    world.api.read_fault = lambda kind, name: name == NAME
    await changed(world)
    await pass_on(world, is_promoted(world))
    assert KEY not in world.api.objects


async def test_looks_that_could_not_be_written_come_with_the_next_ones():
    world = await deployed()
    world.api.write_fault = lambda verb, document: Fault(500) if is_history(document) else None
    await changed(world)
    await pass_on(world, lambda: rollout(world).get("verdicts", {}).get("passed", 0) >= 2)
    world.api.write_fault = lambda verb, document: None
    await pass_on(world, is_promoted(world))
    assert kept(world)[0].step == 1


async def test_a_config_map_of_this_name_that_is_somebody_elses_is_left_alone():
    world = await deployed()
    theirs = {
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": "default"},
        "data": {"mine": "1"},
    }
    world.api.put(theirs)
    await changed(world)
    notes = await pass_on(world, is_promoted(world))

    assert world.api.objects[KEY]["data"] == {"mine": "1"}
    assert any("somebody else" in note for note in notes)


async def test_prometheus_without_an_answer_is_a_look_too():
    world = await begun()
    looked = len(kept(world))

    async def silent(*_):
        raise ReadFailed("Prometheus gives no answer")

    world.evidences.of = silent
    await pass_on(world, has_looks(world, looked + 1))
    assert (kept(world)[-1].verdict, kept(world)[-1].metrics) == ("Error", [])
