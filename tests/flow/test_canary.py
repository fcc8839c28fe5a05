"""A canary from the change of an image to its end, as a release engineer sees it."""

from dataclasses import replace

import pytest

from tidegate.core.names import LABEL_NODE_CLASS, LABEL_REVISION
from tidegate.flow.ports import Sides

from .documents import labels_of
from .evidences import Evidences
from .gates import told
from .scenarios import image
from .world import A100, H100, Fate, World

STEPS = [{"weight": 10, "analysis": "5m"}, {"weight": 50, "analysis": "5m"}]
CANARY = {"strategy": "Canary", "steps": STEPS, "warmUp": "30s", "deadline": "30m"}


async def deployed(gpus=8, replicas=2, rollout=CANARY, evidences=None, **spec) -> World:
    world = World(evidences=evidences or Evidences())
    world.node("a1", A100, gpus)
    world.apply(pools={"unified": {"replicas": replicas}}, rollout=rollout, **spec)
    await world.run()
    return world


async def changed(world: World, version="next", replicas=2, rollout=CANARY, **more) -> None:
    world.apply(
        pools={"unified": {"replicas": replicas}}, rollout=rollout, engine=image(version), **more
    )


async def go_on(world: World, rounds: int, seconds: float = 10.0) -> None:
    """Let time pass in larger steps than pods need."""
    for _ in range(rounds):
        await world.reconcile()
        world.step()
        watch(world)
        world.clock.pass_by(seconds)


async def until(world: World, phase: str, rounds: int = 220) -> None:
    """Let time pass until the rollout is in a phase: a verdict takes as long as it takes."""
    for _ in range(rounds):
        if rollout(world)["phase"] == phase:
            return
        await go_on(world, 1)
    raise AssertionError(f"not {phase}: {rollout(world)}")


def weights(world: World) -> dict[str, int]:
    config = next(d for k, d in world.api.objects.items() if k[0] == "ConfigMap" and "gate" in k[2])
    return {one["name"]: one["weight"] for one in told(config)["revisions"]}


def watch(world: World) -> None:
    """See that no revision without a ready pod has a share while another one could serve."""
    ready = {labels_of(pod)[LABEL_REVISION] for pod in world.ready("unified")}
    shares = weights(world)
    if ready & shares.keys():
        assert sum(shares.values()) in range(998, 1003), shares


def pods_of(world: World, revision: str):
    return [pod for pod in world.pods() if labels_of(pod)[LABEL_REVISION] == revision]


def slices_of(world: World):
    """Revision and class of each Deployment of pods, with its replicas."""
    return {
        (labels_of(found)[LABEL_REVISION], labels_of(found)[LABEL_NODE_CLASS]): found["spec"][
            "replicas"
        ]
        for found in world.deployments()
    }


def rollout(world: World):
    return world.status()["rollout"]


async def test_a_good_canary_goes_through_its_steps_and_is_promoted():
    world = await deployed()
    old = rollout(world)["stable"]
    await changed(world)
    seen = []
    for _ in range(150):
        await go_on(world, 1)
        seen.append((rollout(world)["summary"], weights(world).get(old)))
        if rollout(world)["phase"] == "Settled" and rollout(world)["stable"] != old:
            break
    said = list(dict.fromkeys(text for text, _ in seen))
    assert said == ["1/2 0%", "1/2 10%", "2/2 10%", "2/2 50%", "Promoting", "Settled"], said
    assert {share for _, share in seen} >= {1000, 900, 500}
    assert world.condition("Promoted")["status"] == "True"
    assert world.condition("Ready")["status"] == "True"
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {
        image("next")["image"]
    }


async def test_a_bad_canary_is_taken_back_by_itself_and_the_reason_is_in_one_line():
    world = await deployed()
    old = rollout(world)["stable"]
    await changed(world)
    world.evidences.bad = 200.0
    await until(world, "Aborted")
    assert "survival" in rollout(world)["summary"]
    assert weights(world)[old] == 1000
    assert world.status()["reason"] == "RolloutAborted"
    assert world.condition("Stalled")["status"] == "True"
    await go_on(world, 80)
    assert {labels_of(pod)[LABEL_REVISION] for pod in world.pods()} == {old}
    assert len(world.ready("unified")) == 2


async def test_no_traffic_pauses_and_goes_on_by_itself_when_it_comes():
    world = await deployed(evidences=Evidences(requests=0))
    old = rollout(world)["stable"]
    await changed(world)
    await go_on(world, 80, seconds=60)
    assert rollout(world)["summary"] == "1/2 10% inconclusive"
    assert world.condition("CanaryHealthy")["reason"] == "CanaryInconclusive"
    assert rollout(world)["stable"] == old
    world.evidences.requests = 600
    await go_on(world, 60, seconds=30)
    assert rollout(world)["stable"] != old
    assert rollout(world)["phase"] == "Settled"


async def test_no_traffic_takes_back_where_the_spec_says_so():
    abort = {**CANARY, "onInconclusive": "Abort"}
    world = await deployed(rollout=abort, evidences=Evidences(requests=0))
    await changed(world, rollout=abort)
    await go_on(world, 80, seconds=60)
    assert rollout(world)["phase"] == "Aborted"


async def test_traffic_that_stops_in_the_middle_advances_nothing():
    world = await deployed()
    await changed(world)
    await go_on(world, 30)
    assert rollout(world)["verdicts"]["passed"]
    evidences = world.evidences
    whole, last = evidences.of, world.clock.now()

    async def until_now(ref, canary, baseline, since, now):
        sides = await whole(ref, canary, baseline, since, now)
        silent = tuple(
            one if one.at < last else replace(one, ended_well=0.0, ended_badly=0.0, ttft=None)
            for one in sides.canary
        )
        return Sides(silent, sides.baseline)

    evidences.of = until_now
    await go_on(world, 60)
    assert rollout(world)["step"] == 0


async def test_prometheus_gone_at_each_step_waits_and_says_so_and_goes_on_afterwards():
    world = await deployed()
    old = rollout(world)["stable"]
    await changed(world)
    for step in (0, 1):
        world.evidences.is_away = True
        await go_on(world, 12)
        assert rollout(world)["step"] == step
        assert rollout(world)["verdicts"]["errors"]
        assert "no answer" in world.condition("CanaryHealthy")["message"]
        world.evidences.is_away = False
        for _ in range(80):
            if rollout(world)["step"] != step or rollout(world)["phase"] != "Canary":
                break
            await go_on(world, 1)
    await go_on(world, 20)
    assert rollout(world)["stable"] != old


@pytest.mark.parametrize("gpus", [2, 3])
async def test_pods_that_never_become_ready_take_it_back_at_the_deadline_with_their_cause(gpus):
    world = await deployed(gpus=gpus)
    old = rollout(world)["stable"]
    world.fates[image("broken")["image"]] = Fate(log="torch.OutOfMemoryError: CUDA out of memory.")
    await changed(world, "broken")
    await go_on(world, 80, seconds=60)
    assert rollout(world)["phase"] == "Aborted"
    assert "ended" in rollout(world)["because"] or "memory" in rollout(world)["because"]
    assert weights(world)[old] == 1000
    assert len(world.ready("unified")) == 2


async def test_a_failed_revision_is_not_tried_again_until_somebody_says_so():
    world = await deployed()
    await changed(world)
    world.evidences.bad = 200.0
    await until(world, "Aborted")
    failed = rollout(world)["canary"]
    world.evidences.bad = 0.0
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await go_on(world, 30)
    assert rollout(world)["phase"] == "Settled"
    await changed(world)
    await go_on(world, 30)
    assert rollout(world)["phase"] == "Aborted"
    asked = len(world.evidences.asked)
    command = {"action": "Retry", "revision": failed, "token": "1"}
    await changed(world, rollout={**CANARY, "command": command})
    await go_on(world, 150)
    assert rollout(world)["stable"] == failed
    since = {call[3] for call in world.evidences.asked[asked:]}
    assert min(since) > world.evidences.asked[asked - 1][4], "a retry has evidence of its own"


async def test_going_back_to_stable_in_the_middle_is_instant_and_deletes_no_serving_pod():
    world = await deployed()
    old = rollout(world)["stable"]
    before = {pod["metadata"]["name"] for pod in world.pods()}
    await changed(world)
    await go_on(world, 20)
    assert weights(world)[old] < 1000
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await go_on(world, 1)
    assert weights(world)[old] == 1000
    await go_on(world, 10)
    assert {pod["metadata"]["name"] for pod in world.pods()} == before


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("to", ["the old one", "a fix"])
async def test_a_bad_canary_that_the_spec_leaves_gets_no_more_requests_than_it_had(to, replicas):
    """No GPU is free, so it has a pod of two and a twentieth of the requests."""
    spec = {**CANARY, "steps": [{"weight": 5, "analysis": "5m"}]}
    world = await deployed(gpus=replicas, replicas=replicas, rollout=spec)
    await changed(world, replicas=replicas, rollout=spec)
    for _ in range(60):
        await go_on(world, 1)
        if rollout(world)["summary"] == "1/1 5%":
            break
    bad = rollout(world)["canary"]
    assert weights(world)[bad] == 50
    if to == "a fix":
        await changed(world, "fix", replicas=replicas, rollout=spec)
    else:
        world.apply(pools={"unified": {"replicas": replicas}}, rollout=spec)
    for _ in range(10):
        await world.reconcile()
        assert weights(world).get(bad, 0) <= 50
        world.step()
        world.clock.pass_by(2)


async def test_a_new_revision_in_mid_analysis_restarts_against_the_same_stable():
    world = await deployed()
    old = rollout(world)["stable"]
    await changed(world)
    await go_on(world, 30)
    first = rollout(world)["canary"]
    await changed(world, "third")
    await go_on(world, 1)
    assert rollout(world)["canary"] != first
    assert rollout(world)["stable"] == old
    assert rollout(world)["step"] == 0
    assert "judgedSince" not in rollout(world)
    assert weights(world)[old] == 1000
    await go_on(world, 150)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {
        image("third")["image"]
    }


async def test_a_third_revision_in_mid_promotion_never_sends_all_to_a_scaled_down_stable():
    world = await deployed(gpus=4, replicas=4)
    old = rollout(world)["stable"]
    await changed(world, replicas=4)
    for _ in range(200):
        await go_on(world, 1)
        if rollout(world)["phase"] == "Promoting" and len(pods_of(world, old)) == 1:
            break
    assert rollout(world)["phase"] == "Promoting"
    await changed(world, "third", replicas=4)
    await go_on(world, 1)
    assert weights(world)[old] <= 500


async def test_a_fix_is_rolled_out_at_once_when_stable_is_down():
    world = await deployed()
    down = image("broken")["image"]
    world.fates[down] = Fate(log="Segmentation fault")
    await changed(world, "broken", rollout={"strategy": "Recreate"})
    await go_on(world, 30)
    assert not world.ready("unified")
    await changed(world, "fixed")
    await go_on(world, 40)
    assert len(world.ready("unified")) == 2
    assert rollout(world)["phase"] == "Settled"
    assert not world.evidences.asked


@pytest.mark.parametrize(("gpus", "replicas"), [(1, 1), (2, 2), (8, 2)])
async def test_a_fix_that_comes_at_once_replaces_a_first_revision_that_never_served(gpus, replicas):
    world = World(evidences=Evidences())
    world.node("a1", A100, gpus)
    world.fates[image("broken")["image"]] = Fate(log="Segmentation fault")
    await changed(world, "broken", replicas=replicas)
    await go_on(world, 4)
    await changed(world, "fixed", replicas=replicas)
    await go_on(world, 40)
    assert len(world.ready("unified")) == replicas
    assert rollout(world)["phase"] == "Settled"


async def test_stable_that_is_away_for_a_moment_as_the_spec_changes_is_what_it_is_compared_with():
    world = await deployed()
    stable = rollout(world)["stable"]
    for pod in world.pods():
        world.api.remove(("Pod", "default", pod["metadata"]["name"]))
    await changed(world)
    await go_on(world, 30)
    assert (rollout(world)["phase"], rollout(world)["stable"]) == ("Canary", stable)
    assert weights(world)[stable] == 900


async def test_a_canary_whose_status_is_lost_is_judged_anew():
    world = await deployed(gpus=8, replicas=4)
    stable = rollout(world)["stable"]
    await changed(world, replicas=4)
    await go_on(world, 20)
    canary, document = (
        rollout(world)["canary"],
        world.api.objects["LLMDeployment", "default", "chat"],
    )
    status = {key: value for key, value in document["status"].items() if key != "rollout"}
    world.api.put({**document, "status": status})
    world.restart()
    await go_on(world, 1)
    assert weights(world) == {canary: 100, stable: 900}
    world.evidences.bad = 300.0
    await until(world, "Aborted")


async def test_a_change_of_replicas_does_not_restart_the_analysis():
    world = await deployed()
    await changed(world)
    await go_on(world, 20)
    began = rollout(world)["judgedSince"]
    await changed(world, replicas=3)
    await go_on(world, 5)
    assert rollout(world)["judgedSince"] == began
    assert len(world.ready("unified")) >= 3


async def test_paused_stays_and_abort_while_paused_ends():
    paused = {**CANARY, "paused": True}
    world = await deployed()
    await changed(world, rollout=paused)
    await go_on(world, 100, seconds=60)
    assert rollout(world)["summary"] == "1/2 10% paused"
    command = {"action": "Abort", "revision": rollout(world)["canary"], "token": "a"}
    await changed(world, rollout={**paused, "command": command})
    await go_on(world, 10)
    assert rollout(world)["phase"] == "Aborted"
    writes = len(world.api.writes)
    await go_on(world, 60, seconds=60)
    assert len(world.api.writes) - writes < 12, "it comes to rest"


async def test_a_command_for_another_revision_does_nothing():
    world = await deployed()
    command = {"action": "Promote", "revision": rollout(world)["stable"], "token": "late"}
    await changed(world, rollout={**CANARY, "command": command})
    await go_on(world, 15)
    assert rollout(world)["phase"] == "Canary"


async def test_promoted_by_command_takes_all_without_further_steps():
    world = await deployed(evidences=Evidences(requests=0))
    await changed(world)
    await go_on(world, 15)
    command = {"action": "Promote", "revision": rollout(world)["canary"], "token": "go"}
    await changed(world, rollout={**CANARY, "command": command})
    await go_on(world, 20)
    assert rollout(world)["phase"] == "Settled"
    assert world.condition("Promoted")["status"] == "True"


@pytest.mark.parametrize(
    ("replicas", "gpus", "budget", "end_seconds"),
    [(4, 4, 0, 1), (4, 8, 1, 1), (2, 8, 2, 1), (4, 8, 0, 1), (4, 8, 0, 25), (2, 8, 1, 25)],
)
async def test_a_rollout_never_has_more_gpus_than_its_budget(replicas, gpus, budget, end_seconds):
    """Nor while pods take their time to end: they hold their GPUs until then."""
    spec = {**CANARY, "gpuBudget": budget}
    world = await deployed(gpus=gpus, replicas=replicas, rollout=spec)
    world.end_seconds = end_seconds
    await changed(world, replicas=replicas, rollout=spec)
    for _ in range(200):
        await go_on(world, 1)
        assert len(world.pods()) <= replicas + budget
    assert rollout(world)["phase"] == "Settled"
    assert len(world.ready("unified")) == replicas


@pytest.mark.parametrize("how", ["command", "verdict"])
async def test_on_several_classes_an_abort_gives_stable_its_pods_back_on_each(how):
    """No GPU is free: the canary takes the place of stable's only pod of a class."""
    world = World(evidences=Evidences())
    world.node("a1", A100, 1)
    world.node("h1", H100, 1)
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await world.run()
    stable, before = rollout(world)["stable"], slices_of(world)
    await changed(world)
    await go_on(world, 8)
    if how == "command":
        command = {"action": "Abort", "revision": rollout(world)["canary"], "token": "x"}
        await changed(world, rollout={**CANARY, "command": command})
    else:
        world.evidences.bad = 200.0
    await until(world, "Aborted")
    await go_on(world, 12)
    assert len([pod for pod in world.ready("unified") if pod in pods_of(world, stable)]) == 2
    assert weights(world)[stable] == 1000
    await go_on(world, 12, seconds=600)
    assert slices_of(world) == before


async def test_of_a_revision_that_was_replaced_no_empty_slice_is_left():
    world = World(evidences=Evidences())
    world.node("a1", A100, 1)
    world.node("h1", H100, 1)
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await world.run()
    old = rollout(world)["stable"]
    await changed(world)
    for _ in range(220):
        await go_on(world, 1)
        if rollout(world)["phase"] == "Settled" and rollout(world)["stable"] != old:
            break
    await go_on(world, 5)
    assert {name for name, _ in slices_of(world)} == {rollout(world)["stable"]}
    assert len(slices_of(world)) == 2


async def test_beside_one_replica_without_room_it_waits_and_then_says_what_to_do():
    world = await deployed(gpus=1, replicas=1)
    old = rollout(world)["stable"]
    await changed(world, replicas=1)
    await go_on(world, 80, seconds=60)
    assert world.ready("unified"), "the only pod is never taken for a canary"
    assert rollout(world)["stable"] == old
    assert "promote" in world.condition("Progressing")["message"]


async def test_three_changes_in_ten_seconds_leave_only_the_last():
    world = await deployed()
    for version in ("one", "two", "three"):
        await changed(world, version)
        await go_on(world, 1, seconds=3)
    await go_on(world, 160)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {
        image("three")["image"]
    }
    assert rollout(world)["phase"] == "Settled"
    assert len(world.deployments()) == 1


async def test_a_pair_is_one_revision_and_gets_its_share_only_when_both_halves_are_ready():
    pools = {"prefill": {"replicas": 1}, "decode": {"replicas": 2}}
    world = World(evidences=Evidences())
    world.node("a1", A100, 8)
    world.apply(pools=pools, rollout=CANARY)
    await world.run()
    old = rollout(world)["stable"]
    world.apply(pools=pools, rollout=CANARY, engine=image("next"))
    for _ in range(150):
        await go_on(world, 1)
        new = next((name for name in weights(world) if name != old), None)
        if new and weights(world)[new]:
            halves = {labels_of(pod)["tidegate.io/pool"] for pod in pods_of(world, new)}
            assert halves == {"prefill", "decode"}
    assert rollout(world)["phase"] == "Settled"
    assert rollout(world)["stable"] != old


async def test_at_rest_a_settled_rollout_writes_and_asks_nothing():
    world = await deployed()
    writes = len(world.api.writes)
    await go_on(world, 20, seconds=60)
    assert len(world.api.writes) == writes
    assert not world.evidences.asked


@pytest.mark.parametrize(("replicas", "said"), [(2, "Canary"), (1, "Promoting")])
async def test_without_a_word_a_deployment_gets_a_canary_only_where_there_is_room(replicas, said):
    world = await deployed(replicas=replicas, rollout={})
    await changed(world, replicas=replicas, rollout={})
    await go_on(world, 1)
    assert rollout(world)["phase"] == said
