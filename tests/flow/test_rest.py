"""At rest nothing is written and nothing is asked; what drifts is put right."""

import pytest

from .scenarios import PAIR
from .world import A100, H100, World


async def at_rest(**spec) -> World:
    world = World()
    world.node("a1", A100)
    world.node("h1", H100)
    world.apply(**spec)
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    return world


@pytest.mark.parametrize("spec", [{}, {"pools": PAIR}, {"kvCache": {"blockSize": 32}}])
async def test_twenty_passes_at_rest_make_no_call(spec):
    world = await at_rest(**spec)
    writes, reads, version = len(world.api.writes), len(world.api.reads), world.api.version
    for _ in range(20):
        world.clock.pass_by(30)
        assert (await world.reconcile()).result == "settled"
    assert (len(world.api.writes), len(world.api.reads)) == (writes, reads)
    assert world.api.version == version


async def test_a_new_process_hears_one_engine_of_each_slice_and_makes_no_other_call():
    world = await at_rest()
    writes, reads = len(world.api.writes), len(world.api.reads)
    world.engines.asked.clear()
    world.restart()
    for _ in range(20):
        await world.reconcile()
    slices = len(world.deployments())
    assert len(world.engines.asked) == slices
    kinds = [kind for kind, *_ in world.api.reads[reads:]]
    assert sorted(kinds) == ["get", *["log"] * slices]  # the ConfigMap of measurements, and logs
    assert len(world.api.writes) == writes


async def test_an_object_that_somebody_deleted_comes_back():
    world = await at_rest()
    for kind in ("Service", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"):
        world.api.remove((kind, "default", "chat-unified"))
    await world.run()
    for kind in ("Service", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"):
        assert (kind, "default", "chat-unified") in world.api.objects


async def test_a_field_that_somebody_changed_is_put_right():
    world = await at_rest()
    key = ("Service", "default", "chat-unified")
    spec = world.api.objects[key]["spec"]
    world.api.patch(key, spec={**spec, "selector": {"wrong": "pods"}})
    await world.reconcile()
    assert world.api.objects[key]["spec"]["selector"]["tidegate.io/pool"] == "unified"


async def test_what_others_add_to_an_object_stays():
    world = await at_rest()
    key = ("Service", "default", "chat-unified")
    live = world.api.objects[key]
    labels = {**live["metadata"]["labels"], "team": "chat"}
    world.api.patch(key, metadata={**live["metadata"], "labels": labels})
    count = len(world.api.writes)
    await world.run_for(3)
    assert len(world.api.writes) == count
    assert world.api.objects[key]["metadata"]["labels"]["team"] == "chat"


async def test_replicas_that_somebody_scaled_are_put_right():
    world = await at_rest()
    deployment = world.deployments()[0]
    key = ("Deployment", "default", deployment["metadata"]["name"])
    world.api.patch(key, spec={**deployment["spec"], "replicas": 5})
    await world.run()
    assert sum(found["spec"]["replicas"] for found in world.deployments()) == 2
