"""A user applies a resource, changes it, and deletes it."""

import pytest

from .api_server import CRD
from .scenarios import PAIR, image
from .world import A100, H100, World


async def deployed(gpus: int = 4, **spec) -> World:
    world = World()
    world.node("a1", A100, gpus)
    world.apply(**spec)
    await world.run()
    return world


def names_of(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods()}


async def test_an_applied_resource_becomes_ready_pods_and_a_full_status():
    world = await deployed()
    assert len(world.ready("unified")) == 2
    status = world.status()
    assert status["pods"] == "2/2"
    assert status["kvTokens"] == 2 * status["plan"][0]["kvTokens"] > 0
    assert status["reason"] == "PodsReady"
    assert status["observedGeneration"] == 1
    assert [c["type"] for c in status["conditions"]] == [
        "Ready", "Reconciling", "Stalled", "BudgetFits", "Available", "BudgetDrift",
        "RenderingCurrent", "Promoted", "CanaryHealthy", "Progressing",
    ]  # fmt: skip
    kinds = {key[0] for key in world.api.objects} - {"Node", "Pod", CRD}
    assert kinds == {
        "Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy",
        "ConfigMap", "Role", "RoleBinding",
    }  # fmt: skip


@pytest.mark.parametrize("replicas", [3, 1])
async def test_a_change_of_replicas_alone_restarts_nothing(replicas):
    world = await deployed()
    before = names_of(world)
    world.apply(pools={"unified": {"replicas": replicas}})
    await world.run()
    after = names_of(world)
    assert len(after) == replicas
    assert before <= after or after <= before
    assert len(world.deployments()) == 1


@pytest.mark.parametrize("gpus", [2, 3, 4])
async def test_a_new_image_replaces_every_pod_within_the_limits(gpus):
    world = await deployed(gpus)
    before = names_of(world)
    world.least_ready = {"unified": 2}
    world.apply(engine=image("next"))
    await world.run()
    assert not before & names_of(world)
    assert world.least_ready["unified"] == (1 if gpus == 2 else 2)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {
        image("next")["image"]
    }
    assert len(world.deployments()) == 1, "the empty old slice is deleted"


async def test_a_pair_never_serves_with_pods_of_two_revisions_only():
    world = await deployed(5, pools=PAIR)
    world.apply(pools=PAIR, engine=image("next"))

    def one_revision_is_whole():
        pools = {}
        for pool in ("prefill", "decode"):
            for pod in world.ready(pool):
                labels = pod["metadata"]["labels"]
                pools.setdefault(labels["tidegate.io/revision"], set()).add(pool)
        assert {"prefill", "decode"} in pools.values()

    await world.run(watch=one_revision_is_whole)
    assert world.condition("Ready")["status"] == "True"


async def test_recreate_ends_all_old_pods_before_the_first_new_one():
    recreate = {"strategy": "Recreate"}
    world = await deployed(8, rollout=recreate)
    world.apply(rollout=recreate, engine=image("next"))

    def one_image_at_a_time():
        assert len({pod["spec"]["containers"][0]["image"] for pod in world.pods()}) <= 1

    await world.run(watch=one_image_at_a_time)
    assert world.condition("Ready")["status"] == "True"


async def test_a_third_revision_in_the_middle_replaces_the_second():
    world = await deployed(3)
    world.least_ready = {"unified": 2}
    world.apply(engine=image("second"))
    await world.run_for(2)
    world.apply(engine=image("third"))
    await world.run()
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {
        image("third")["image"]
    }
    assert world.least_ready["unified"] == 2


async def test_going_back_in_the_middle_keeps_the_pods_that_still_serve():
    world = await deployed(3)
    before = names_of(world)
    world.apply(engine=image("second"))
    await world.run_for(2)
    world.apply()
    await world.run()
    assert names_of(world) == before


async def test_a_pool_that_is_gone_leaves_nothing_behind():
    world = await deployed(8)
    world.apply(pools=PAIR)
    await world.run()
    assert not [key for key in world.api.objects if key[2].startswith("chat-unified")]


async def test_a_deployment_that_is_being_deleted_is_left_to_the_garbage_collector():
    world = await deployed()
    key = (CRD, "default", "chat")
    live = world.api.objects[key]
    world.api.patch(key, metadata={**live["metadata"], "deletionTimestamp": world.clock.text()})
    world.api.remove(("Service", "default", "chat-unified"))
    count = len(world.api.writes)
    await world.run_for(5)
    assert len(world.api.writes) == count
    world.api.remove(key)
    assert (await world.reconcile()).result == "gone"
    assert {k[0] for k in world.api.objects} == {"Node", "ConfigMap"}, "measurements stay"


async def test_a_deployment_that_is_made_anew_gets_objects_of_its_own():
    world = await deployed()
    world.api.remove((CRD, "default", "chat"))
    world.apply()
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    uid = world.api.objects[CRD, "default", "chat"]["metadata"]["uid"]
    owners = {d["metadata"]["ownerReferences"][0]["uid"] for d in world.deployments()}
    assert owners == {uid}


async def test_two_deployments_of_one_name_in_two_namespaces_do_not_meet():
    world = World()
    world.node("a1", A100, 8)
    one, other = world.apply(namespace="one"), world.apply(namespace="other")
    await world.run()
    for ref in (one, other):
        assert world.condition("Ready", ref)["status"] == "True"
    world.api.remove((CRD, "one", "chat"))
    world.refs.remove(one)
    await world.run()
    assert len(world.pods()) == 2
    assert world.condition("Ready", other)["status"] == "True"


async def test_names_at_the_limit_stay_apart():
    world = World()
    world.node("a1", A100, 8)
    long = "x" * 62
    for name in (f"{long}a", f"{long}b"):
        world.apply(name=name)
    await world.run()
    for ref in world.refs:
        assert world.condition("Ready", ref)["status"] == "True"
    assert len(world.deployments()) == 2
    assert all(len(found["metadata"]["name"]) <= 63 for found in world.api.objects.values())


async def test_two_classes_share_a_pool_and_an_update_reaches_both():
    world = World()
    world.node("a1", A100, 2)
    world.node("h1", H100, 2)
    world.apply(pools={"unified": {"replicas": 3}})
    await world.run()
    classes = {found["metadata"]["labels"]["tidegate.io/node-class"] for found in world.pods()}
    assert len(classes) == 2
    world.apply(pools={"unified": {"replicas": 3}}, engine=image("next"))
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    assert len(world.ready("unified")) == 3


@pytest.mark.parametrize("gpus", [4, 8])
async def test_two_deployments_that_roll_at_once_both_end(gpus):
    world = World()
    world.node("a1", A100, gpus)
    refs = [world.apply(name="one"), world.apply(name="two")]
    await world.run()
    for name in ("one", "two"):
        world.apply(name=name, engine=image("next"))
    await world.run()
    assert [world.condition("Ready", ref)["status"] for ref in refs] == ["True", "True"]
