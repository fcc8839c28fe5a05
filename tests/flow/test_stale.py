"""A cache that stands still never leads to a write that the present does not call for."""

import pytest

from .scenarios import PAIR, image
from .world import A100, H100, World


async def deployed(gpus: int = 2, **spec) -> World:
    world = World()
    world.node("a1", A100, gpus)
    world.apply(**spec)
    await world.run()
    return world


def slices_of(world: World):
    return {found["metadata"]["name"]: found["spec"] for found in world.deployments()}


@pytest.mark.parametrize("is_new_process", [False, True])
@pytest.mark.parametrize("spec", [{}, {"pools": PAIR}])
async def test_an_old_resource_in_the_cache_brings_no_old_template_back(spec, is_new_process):
    world = await deployed(4, **spec)
    world.api.freeze("LLMDeployment")
    stale = world.api.frozen.copy()
    world.api.frozen = {}
    world.apply(**spec, engine=image("next"))
    await world.run()
    before = slices_of(world)
    world.api.frozen = stale
    if is_new_process:
        world.restart()
    for _ in range(5):
        assert (await world.reconcile()).result == "stale"
    assert slices_of(world) == before


async def test_a_deployment_that_was_deleted_is_not_brought_back_by_a_cache():
    world = await deployed()
    world.api.freeze("LLMDeployment", "Deployment", "Service")
    world.api.remove(("LLMDeployment", "default", "chat"))
    world.api.frozen["Deployment"] = world.api.objects
    await world.reconcile()
    assert not world.deployments()


async def test_nothing_is_decided_on_a_copy_older_than_our_own_write():
    world = await deployed()
    world.apply(engine=image("next"))
    world.api.freeze("Deployment")
    assert (await world.reconcile()).result == "moving"
    attempts = world.api.attempts
    assert (await world.reconcile()).result == "stale"
    assert world.api.attempts == attempts
    world.api.frozen = {}
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_our_own_object_that_somebody_deleted_at_once_is_not_waited_for():
    world = World()
    world.node("a1")
    world.apply()
    await world.reconcile()
    world.api.remove(("Service", "default", "chat-unified"))
    await world.run()
    assert ("Service", "default", "chat-unified") in world.api.objects


@pytest.mark.parametrize("change", ["an old slice", "the current slice"])
async def test_a_slice_that_another_process_changed_is_left_as_that_one_wants_it(change):
    world = await deployed(8)
    world.api.freeze("Deployment")
    name = world.deployments()[0]["metadata"]["name"]
    key = ("Deployment", "default", name)
    spec = world.api.objects[key]["spec"]
    world.api.patch(key, spec={**spec, "replicas": 3})
    parts = {"engine": image("next")} if change == "an old slice" else {}
    parts |= {"rollout": {"strategy": "Recreate"}, "pools": {"unified": {"replicas": 1}}}
    world.apply(**parts)
    world.restart()
    assert (await world.reconcile()).result == "stale"
    assert world.api.objects[key]["spec"]["replicas"] == 3


async def test_an_old_slice_that_was_scaled_up_meanwhile_is_not_deleted():
    world = await deployed(4)
    world.apply(engine=image("next"))
    old = world.deployments()[0]["metadata"]["name"]
    while world.api.objects["Deployment", "default", old]["spec"]["replicas"]:
        await world.run_for(1)
    await _until_empty(world, old)
    world.api.freeze("Deployment", "Pod")
    key = ("Deployment", "default", old)
    world.api.patch(key, spec={**world.api.objects[key]["spec"], "replicas": 2})
    world.restart()
    await world.reconcile()
    assert key in world.api.objects


async def _until_empty(world: World, name: str) -> None:
    """Let the cluster alone end the pods of a slice, without a pass that would delete it."""
    while any(pod["metadata"]["name"].startswith(name) for pod in world.pods()):
        world.step()
        world.clock.pass_by(1)


@pytest.mark.parametrize("kind", ["LLMDeployment", "Deployment", "Pod", "Node"])
@pytest.mark.parametrize("lag", [2, 5, 9, 20])
async def test_an_update_seen_through_stale_caches_keeps_its_limits(kind, lag):
    world = await deployed()
    world.least_ready = {"unified": 2}
    world.api.lag = {kind: lag}
    world.apply(engine=image("next"))
    await world.run_for(40)
    world.api.lag = {}
    await world.run()
    assert world.least_ready["unified"] >= 1
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
async def test_so_does_one_on_two_classes(kind):
    world = World()
    world.node("a1", A100, 2)
    world.node("h1", H100, 2)
    world.apply(pools={"unified": {"replicas": 4}})
    await world.run()
    world.least_ready = {"unified": 4}
    world.api.lag = {kind: 7}
    world.apply(pools={"unified": {"replicas": 4}}, engine=image("next"))
    await world.run_for(60)
    world.api.lag = {}
    await world.run()
    assert world.least_ready["unified"] >= 3
    assert world.condition("Ready")["status"] == "True"
