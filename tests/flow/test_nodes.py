"""Nodes come, go and change their labels: replanned when it lasts, and never to and fro."""

import pytest

from .world import A100, H100, World


async def on_two_classes() -> World:
    world = World()
    world.node("a1", A100, 4)
    world.node("h1", H100, 4)
    world.apply(pools={"unified": {"replicas": 4}})
    await world.run()
    assert len(world.deployments()) == 2
    return world


def strip_labels(world: World, name: str) -> None:
    node = world.api.objects["Node", "", name]
    world.api.patch(("Node", "", name), metadata={**node["metadata"], "labels": {}})


def pods_of(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods()}


@pytest.mark.parametrize("names", [("h1",), ("a1", "h1")])
async def test_labels_that_are_away_for_a_moment_change_nothing(names):
    world = await on_two_classes()
    before, writes = pods_of(world), len(world.api.writes)
    for name in names:
        strip_labels(world, name)
    await world.run_for(30)
    world.node("a1", A100, 4)
    world.node("h1", H100, 4)
    await world.run_for(60)
    assert pods_of(world) == before
    assert len(world.api.writes) == writes


async def test_labels_that_stay_away_move_the_pods():
    world = await on_two_classes()
    strip_labels(world, "h1")
    await world.run_for(59)
    assert len(world.deployments()) == 2
    await world.run_for(2)
    await world.run()
    assert len(world.deployments()) == 1
    assert world.condition("Ready")["status"] == "True"


async def test_a_grace_is_counted_from_the_moment_that_the_absence_is_seen():
    world = await on_two_classes()
    world.clock.pass_by(3600)  # no pass in between
    strip_labels(world, "h1")
    writes = len(world.api.writes)
    outcome = await world.reconcile()
    assert len(world.api.writes) == writes
    assert outcome.requeue_seconds == pytest.approx(60)


async def test_a_new_process_does_not_take_a_moment_for_the_end():
    world = await on_two_classes()
    before = pods_of(world)
    strip_labels(world, "h1")
    world.restart()
    await world.run_for(20)
    world.node("h1", H100, 4)
    await world.run_for(60)
    assert pods_of(world) == before


async def test_a_node_that_flaps_for_minutes_moves_no_pod():
    world = await on_two_classes()
    before = pods_of(world)
    for _ in range(10):
        strip_labels(world, "h1")
        await world.run_for(20)
        world.node("h1", H100, 4)
        await world.run_for(5)
    assert pods_of(world) == before


async def test_a_new_node_moves_no_pod_that_serves():
    world = await on_two_classes()
    before = pods_of(world)
    world.node("h2", H100, 4)
    world.node("a2", A100, 4)
    await world.run()
    assert pods_of(world) == before


async def test_all_nodes_gone_is_said_and_mended_when_they_return():
    world = await on_two_classes()
    for name in ("a1", "h1"):
        strip_labels(world, name)
    await world.run_for(65)
    assert world.condition("Stalled")["status"] == "True"
    assert len(world.deployments()) == 2, "the pods are left alone"
    world.node("a1", A100, 4)
    world.node("h1", H100, 4)
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_gpus_that_others_take_do_not_move_pods_that_have_theirs():
    world = await on_two_classes()
    before = pods_of(world)
    world.foreign_pod("theirs", "h1", 2)
    await world.run()
    assert pods_of(world) == before
