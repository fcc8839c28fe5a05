"""What may happen to a cluster in the middle of a canary, and what its users then see."""

import pytest

from tidegate.core.names import LABEL_REVISION

from .api_server import CRD, Fault
from .documents import container, labels_of
from .scenarios import image
from .test_canary import (
    CANARY,
    changed,
    deployed,
    go_on,
    pods_of,
    rollout,
    until,
    weights,
)
from .world import A100, Fate, World


async def at_step(world: World, step: int) -> None:
    """Let time pass until a step has its share of the requests."""
    for _ in range(200):
        now = rollout(world)
        if now["phase"] == "Canary" and now["step"] == step and "readySince" in now:
            return
        await go_on(world, 1)
    raise AssertionError(f"never at step {step}: {rollout(world)}")


async def settled_on(world: World, version: str) -> None:
    for _ in range(220):
        stands = rollout(world)
        if stands["phase"] == "Settled" and "canary" not in stands and images(world) == {version}:
            return
        await go_on(world, 1)
    raise AssertionError(f"not settled on {version}: {rollout(world)}")


def images(world: World) -> set[str]:
    return {
        pod["spec"]["containers"][0]["image"].rpartition(":")[2]
        for pod in world.pods()
        if "deletionTimestamp" not in pod["metadata"]
    }


def canary_pods(world: World):
    return pods_of(world, rollout(world)["canary"])


@pytest.mark.parametrize("step", [0, 1])
async def test_a_deployment_that_is_deleted_in_mid_rollout_is_left_to_its_end(step):
    world = await deployed()
    await changed(world)
    await at_step(world, step)
    key = (CRD, "default", "chat")
    metadata = {**world.api.objects[key]["metadata"], "deletionTimestamp": world.clock.text()}
    world.api.patch(key, metadata=metadata)
    writes = len(world.api.writes)
    for _ in range(10):
        outcome = await world.reconcile()
        world.step()
        world.clock.pass_by(30)
    assert len(world.api.writes) == writes
    assert outcome.result == "gone"
    assert not world.memory.ends
    assert not world.memory.rollouts


async def test_a_node_lost_under_the_canary_sends_its_users_to_stable_and_it_comes_back():
    world = await deployed(gpus=2)
    old = rollout(world)["stable"]
    world.node("a2", A100, 2)
    await changed(world)
    await at_step(world, 0)
    (lost,) = canary_pods(world)
    node = lost["spec"]["nodeName"]
    for pod in [pod for pod in world.pods() if pod["spec"].get("nodeName") == node]:
        world.api.remove(("Pod", "default", pod["metadata"]["name"]))
    world.api.remove(("Node", "", node))
    world.step()
    await world.reconcile()
    assert weights(world)[old] == 1000 or not world.ready("unified")
    world.node("a3", A100, 2)
    await settled_on(world, "next")


async def test_stable_that_loses_pods_in_mid_rollout_gets_them_back_and_nothing_is_skipped():
    world = await deployed(gpus=8, replicas=4)
    old = rollout(world)["stable"]
    await changed(world, replicas=4)
    await at_step(world, 0)
    for pod in pods_of(world, old)[:2]:
        world.api.remove(("Pod", "default", pod["metadata"]["name"]))
    await go_on(world, 4)
    assert rollout(world)["phase"] == "Canary"
    assert rollout(world)["step"] == 0
    ready = [pod for pod in world.ready("unified") if labels_of(pod)[LABEL_REVISION] == old]
    assert len(ready) == 4
    await settled_on(world, "next")


@pytest.mark.parametrize("step", [0, 1])
async def test_an_api_server_that_is_away_for_a_minute_changes_nothing_at_any_step(step):
    world = await deployed()
    await changed(world)
    await at_step(world, step)
    world.api.write_fault = lambda verb, document: Fault(None)
    world.api.read_fault = lambda kind, name: True
    await go_on(world, 6)
    assert rollout(world)["step"] == step
    world.api.write_fault = lambda verb, document: None
    world.api.read_fault = lambda kind, name: False
    await settled_on(world, "next")
    assert not rollout(world).get("failed")


async def test_a_revision_from_two_back_is_a_canary_like_any_other():
    world = await deployed()
    first = rollout(world)["stable"]
    for version in ("second", "third"):
        await changed(world, version)
        await settled_on(world, version)
    third = rollout(world)["stable"]
    asked = len(world.evidences.asked)
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await until(world, "Canary")
    assert (rollout(world)["canary"], rollout(world)["stable"]) == (first, third)
    await until(world, "Settled")
    assert rollout(world)["stable"] == first
    assert len(world.evidences.asked) > asked, "it is judged anew"


@pytest.mark.parametrize(
    ("fate", "cause"),
    [
        (Fate(waiting="ImagePullBackOff"), "image"),
        (
            Fate(log="ValueError: No available memory for the cache blocks."),
            "no memory is left for the kv cache",
        ),
        (Fate(log="torch.OutOfMemoryError: CUDA out of memory."), "memory"),
        (Fate(exit_code=139, log="Segmentation fault"), "exit code 139"),
    ],
    ids=["image missing", "KV too small", "OOM at load", "crash"],
)
async def test_a_canary_that_never_gets_ready_goes_back_at_the_deadline_with_its_cause(fate, cause):
    world = await deployed()
    old = rollout(world)["stable"]
    world.fates[image("broken")["image"]] = fate
    await changed(world, "broken")
    began = world.clock.now()
    for _ in range(80):
        await go_on(world, 1, seconds=60)
        if rollout(world)["phase"] == "Aborted":
            break
    assert rollout(world)["phase"] == "Aborted"
    assert cause in rollout(world)["because"].lower()
    assert world.clock.now() - began < 3000, "the deadline is half an hour above the step's time"
    assert weights(world)[old] == 1000
    assert len(world.ready("unified")) == 2


async def test_engines_that_end_again_and_again_take_the_canary_back_though_requests_end_well():
    world = await deployed(replicas=4)
    await changed(world, replicas=4)
    await at_step(world, 0)
    for number in range(1, 30):
        if rollout(world)["phase"] != "Canary":
            break
        for pod in canary_pods(world):
            ended = {
                "exitCode": 137,
                "reason": "OOMKilled",
                "containerID": f"c-{number}",
                "finishedAt": world.clock.text(),
            }
            status = container(ready=True, restartCount=number, state={"running": {}})
            status["lastState"] = {"terminated": ended}
            key = ("Pod", "default", pod["metadata"]["name"])
            world.api.patch(key, status={**pod["status"], "containerStatuses": [status]})
        await go_on(world, 2)
    assert rollout(world)["phase"] in ("Aborting", "Aborted")
    assert "restarts" in rollout(world)["because"]
    assert "OutOfMemoryKilled" in rollout(world)["because"]
