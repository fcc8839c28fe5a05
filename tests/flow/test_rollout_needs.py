"""What is told of a rollout beforehand is what it then takes."""

import pytest

from tidegate.api.llmdeployment import parse_spec
from tidegate.core import nodes, plan
from tidegate.core.canary import needs

from .documents import CONFIG, is_ending
from .evidences import Evidences
from .scenarios import image
from .test_canary import CANARY, changed, deployed, go_on, pods_of, rollout
from .world import A100, H100, World


def told(world: World) -> needs.Needs:
    spec = parse_spec(world.api.objects["LLMDeployment", "default", "chat"])
    there = [nodes.read(document) for document in world.api.nodes()]
    free = nodes.free_gpus(there, world.api.gpu_pods(), None, None)
    own = nodes.free_gpus(there, world.api.gpu_pods(), "default", "chat")
    return needs.of(spec, plan.make(spec, CONFIG, there, own, {}), there, free)


async def taken(world: World) -> tuple[list[int], int]:
    """Roll out; return the canary's ready pods of each step, and the most pods at any time."""
    by_step: dict[int, int] = {}
    most = 0
    for _ in range(260):
        await go_on(world, 1)
        now = rollout(world)
        most = max(most, sum(bool(pod["spec"].get("nodeName")) for pod in world.pods()))
        if now["phase"] == "Canary" and now.get("readySince"):
            ours = pods_of(world, now["canary"])
            by_step[now["step"]] = sum("deletionTimestamp" not in p["metadata"] for p in ours)
        if now["phase"] == "Settled" and by_step:
            return [by_step[step] for step in sorted(by_step)], most
    raise AssertionError(rollout(world))


@pytest.mark.parametrize(
    ("gpus", "replicas", "budget"), [(8, 4, {}), (8, 4, {"gpuBudget": 2}), (4, 4, {}), (5, 3, {})]
)
async def test_a_rollout_takes_the_pods_and_gpus_that_were_told(gpus, replicas, budget):
    steps = [{"weight": 25, "analysis": "5m"}, {"weight": 75, "analysis": "5m"}]
    wishes = {"strategy": "Canary", "steps": steps, "warmUp": "30s", **budget}
    world = await deployed(gpus=gpus, replicas=replicas, rollout=wishes)
    expected = told(world)
    await changed(world, replicas=replicas, rollout=wishes)
    pods, most = await taken(world)

    assert pods == [sum(of.pods for of in step.slices) for step in expected.steps]
    assert most <= replicas + expected.free_gpus


def two_classes(world: World) -> dict:
    """Four pods on A100, where no GPU is free, and one on H100, where one is."""
    world.node("a1", A100, 4)
    world.node("h1", H100, 1)
    return {"unified": {"replicas": 5}}


def pair(world: World) -> dict:
    """A pair whose only prefill pod cannot give way, and one free GPU."""
    world.node("a1", A100, 6)
    return {"prefill": {"replicas": 1}, "decode": {"replicas": 4}}


@pytest.mark.parametrize("of", [two_classes, pair])
@pytest.mark.parametrize("more", [{}, {"gpuBudget": 2}], ids=["maxSurge", "gpuBudget"])
async def test_a_canary_comes_where_its_pods_have_room_and_old_ones_give_way_elsewhere(of, more):
    world = World(evidences=Evidences())
    pools = of(world)
    wishes = {**CANARY, **more}
    world.apply(pools=pools, rollout=wishes)
    await world.run()
    if of is two_classes:
        world.node("h2", H100, 1)
        await world.run()
    expected = told(world)
    assert expected.is_possible
    world.apply(pools=pools, rollout=wishes, engine=image("next"))
    before = rollout(world)["stable"]
    for _ in range(260):
        await go_on(world, 1)
        now = rollout(world)
        if now["phase"] == "Canary" and "readySince" in now:
            theirs = expected.steps[now["step"]]
            ours = pods_of(world, now["canary"])
            assert len(ours) == sum(one.pods for one in theirs.slices)
            old = [p for p in pods_of(world, now["stable"]) if not is_ending(p)]
            assert len(old) >= 5 - sum(theirs.given_up.values())
        if now["phase"] == "Settled" and now["stable"] != before:
            return
    raise AssertionError(rollout(world))


@pytest.mark.parametrize(
    ("replicas", "weight", "more"),
    [(1, 50, {}), (2, 99, {}), (4, 25, {"maxUnavailable": 0})],
    ids=["beside the only pod", "in every place", "no pod may be missing"],
)
async def test_a_canary_that_is_said_to_find_no_room_waits(replicas, weight, more):
    steps = [{"weight": weight, "analysis": "5m"}]
    wishes = {"strategy": "Canary", "steps": steps, **more}
    world = await deployed(gpus=replicas, replicas=replicas, rollout=wishes)
    assert not told(world).is_possible
    await changed(world, replicas=replicas, rollout=wishes)
    await go_on(world, 60)

    assert rollout(world)["phase"] == "Canary"
    assert "readySince" not in rollout(world)
