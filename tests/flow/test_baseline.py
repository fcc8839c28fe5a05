"""A canary compared with fresh pods of the old revision, from their making to their end."""

import json
from collections import Counter

import pytest

from tidegate.core import names

from .api_server import CRD, Crash, gpus_of
from .documents import is_ending, labels_of
from .evidences import Evidences
from .scenarios import image
from .test_canary import CANARY, STEPS, changed, deployed, go_on, rollout, until, weights
from .world import A100, Fate, World

BESIDE = {**CANARY, "baseline": True}
PAIR = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}


def counts(world: World) -> Counter[str]:
    """Return the pods that are not about to leave, by what they are of."""
    return Counter(revision_of(pod) for pod in world.pods() if not is_ending(pod))


def fresh(world: World) -> list[str]:
    """Return the names of the Deployments of baselines."""
    return [
        found["metadata"]["name"]
        for found in world.deployments()
        if names.is_baseline(revision_of(found))
    ]


def revision_of(document) -> str:
    return labels_of(document)[names.LABEL_REVISION]


async def compared(replicas=2, gpus=8, rollout_spec=BESIDE, **more) -> tuple[World, str, str]:
    """A canary that has its share, beside its baseline; return also stable and the baseline."""
    world = await deployed(gpus=gpus, replicas=replicas, rollout=rollout_spec, **more)
    await changed(world, replicas=replicas, rollout=rollout_spec)
    await shared(world)
    return world, rollout(world)["stable"], rollout(world)["baseline"]


async def shared(world: World) -> None:
    for _ in range(40):
        if "readySince" in rollout(world) and any(map(names.is_baseline, weights(world))):
            return
        await go_on(world, 1)
    raise AssertionError(f"no share: {rollout(world)}")


async def test_a_good_canary_is_compared_with_fresh_pods_and_they_go_with_its_promotion():
    world, stable, baseline = await compared(replicas=4)
    canary = rollout(world)["canary"]
    assert baseline == f"{stable}-baseline-{canary}"
    assert weights(world) == {stable: 800, canary: 100, baseline: 100}
    assert counts(world) == {stable: 3, canary: 1, baseline: 1}
    await until(world, "Promoting")
    assert {call[2] for call in world.evidences.asked} == {baseline}
    await until(world, "Settled")
    assert rollout(world)["stable"] == canary
    assert "baseline" not in rollout(world)
    assert counts(world) == {canary: 4}
    assert len(world.deployments()) == 1


async def test_a_fresh_pod_differs_from_a_stable_one_in_its_revision_alone():
    world, stable, baseline = await compared()

    def of(revision):
        (found,) = (d for d in world.deployments() if revision_of(d) == revision)
        return found

    old, new = of(stable), of(baseline)
    for part in ("selector", "template"):
        text = json.dumps(old["spec"][part])
        assert stable in text
        assert json.loads(text.replace(stable, baseline)) == new["spec"][part]
    assert old["metadata"]["ownerReferences"] == new["metadata"]["ownerReferences"]
    told, copied = (
        json.loads(d["metadata"]["annotations"][names.ANNOTATION_GATE]) for d in (old, new)
    )
    assert copied == {**told, "name": new["metadata"]["name"], "revision": baseline}


async def test_fresh_pods_are_made_from_what_was_applied_and_not_from_what_a_hand_changed():
    world = await deployed(rollout=BESIDE)
    await changed(world, rollout=BESIDE)
    (old,) = (d for d in world.deployments() if "template" in d["spec"])
    template = json.loads(json.dumps(old["spec"]["template"]))
    template["spec"]["containers"][0]["args"].append("--by-hand")
    key = ("Deployment", "default", old["metadata"]["name"])
    world.api.patch(key, spec={**old["spec"], "template": template})
    await shared(world)
    (made,) = (d for d in world.deployments() if d["metadata"]["name"] in fresh(world))
    assert "--by-hand" not in made["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_a_bad_canary_is_taken_back_and_only_its_own_revision_is_remembered():
    world, stable, _ = await compared(replicas=4)
    canary = rollout(world)["canary"]
    world.evidences.bad = 200.0
    await until(world, "Aborted")
    assert weights(world)[canary] == 0
    await go_on(world, 80)
    assert counts(world) == {stable: 4}
    assert weights(world)[stable] == 1000
    assert [entry["revision"] for entry in rollout(world)["failed"]] == [canary]


@pytest.mark.parametrize("gpus", [4, 5, 8])
async def test_a_taken_back_canary_leaves_users_the_pods_of_stable_and_its_baseline(gpus):
    half = {**BESIDE, "steps": [{"weight": 50, "analysis": "5m"}]}
    world, stable, _ = await compared(replicas=4, gpus=gpus, rollout_spec=half)
    world.evidences.bad = 200.0
    await until(world, "Aborting")
    least = 4
    for _ in range(80):
        await go_on(world, 1)
        ready = map(revision_of, world.ready("unified"))
        least = min(least, Counter(map(names.original_revision, ready))[stable])
    assert least >= 2, "what served as stable at the verdict goes on"
    assert counts(world) == {stable: 4}


async def test_a_new_spec_gets_fresh_pods_of_its_own_and_the_former_ones_go():
    world, stable, former = await compared()
    await changed(world, "third", rollout=BESIDE)
    await go_on(world, 1)
    await shared(world)
    assert rollout(world)["baseline"] != former
    assert rollout(world)["stable"] == stable
    await go_on(world, 5)
    assert former not in counts(world)
    await until(world, "Settled")
    assert len(world.deployments()) == 1


async def test_the_former_spec_sends_all_back_at_once_and_leaves_no_fresh_pod():
    world, stable, baseline = await compared()
    world.apply(pools={"unified": {"replicas": 2}}, rollout=BESIDE)
    await go_on(world, 1)
    shares = weights(world)
    assert shares[stable] + shares.get(baseline, 0) == 1000
    await go_on(world, 15)
    assert counts(world) == {stable: 2}
    assert rollout(world)["phase"] == "Settled"
    assert not fresh(world)


async def test_a_deployment_that_is_deleted_takes_its_baseline_with_it():
    world, _, _ = await compared()
    uid = world.api.objects[CRD, "default", "chat"]["metadata"]["uid"]
    assert fresh(world)
    for found in world.deployments():
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)


async def test_a_spec_that_no_longer_asks_for_it_lets_it_go_and_begins_the_evidence_anew():
    world, stable, baseline = await compared()
    await go_on(world, 12)
    last = world.evidences.asked[-1]
    asked = len(world.evidences.asked)
    await changed(world)
    await go_on(world, 6)
    assert "baseline" not in rollout(world)
    assert baseline not in counts(world)
    await until(world, "Settled")
    later = world.evidences.asked[asked:]
    assert {call[2] for call in later} == {stable}
    assert min(call[3] for call in later) > last[3], "of stable alone nothing is known yet"
    assert rollout(world)["stable"] != stable


async def test_a_pair_is_compared_with_a_whole_pair():
    world = World(evidences=Evidences())
    world.node("a1", A100, 8)
    world.apply(pools=PAIR, rollout=BESIDE)
    await world.run()
    stable = rollout(world)["stable"]
    world.apply(pools=PAIR, rollout=BESIDE, engine=image("next"))
    for _ in range(150):
        await go_on(world, 1)
        is_compared = rollout(world)["phase"] == "Canary"
        for revision, share in weights(world).items() if is_compared else ():
            ready = {
                pool for pool in PAIR for pod in world.ready(pool) if revision_of(pod) == revision
            }
            assert not share or ready == set(PAIR), f"{revision} has a share and {ready}"
    assert rollout(world)["phase"] == "Settled"
    assert rollout(world)["stable"] != stable
    assert all(names.is_baseline(call[2]) for call in world.evidences.asked)
    assert len(world.deployments()) == 2


# GPUs


@pytest.mark.parametrize(
    ("replicas", "gpus", "budget"), [(4, 4, 0), (4, 8, 1), (2, 8, 1), (1, 8, 2), (4, 5, None)]
)
async def test_canary_and_baseline_together_never_take_more_than_the_budget(replicas, gpus, budget):
    spec = BESIDE if budget is None else {**BESIDE, "gpuBudget": budget}
    world = await deployed(gpus=gpus, replicas=replicas, rollout=spec)
    await changed(world, replicas=replicas, rollout=spec)
    most = replicas + (1 if budget is None else budget)
    for _ in range(200):
        await go_on(world, 1)
        assert len(world.pods()) <= most
    assert rollout(world)["phase"] == "Settled"
    assert "next" in world.pods()[0]["spec"]["containers"][0]["image"]
    assert len(world.ready("unified")) == replicas


async def test_fresh_pods_that_are_larger_than_the_canarys_count_with_all_their_gpus():
    spec = {**BESIDE, "gpuBudget": 2}
    large = {"unified": {"replicas": 2, "tensorParallel": 2}}
    world = World(evidences=Evidences())
    world.node("a1", A100, 16)
    world.apply(pools=large, rollout=spec)
    await world.run()
    small = {"unified": {"replicas": 2, "tensorParallel": 1}}
    world.apply(pools=small, rollout=spec)
    for _ in range(150):
        await go_on(world, 1)
        held = sum(gpus_of(pod) for pod in world.pods())
        assert held <= 2 * 2 + 2
    assert rollout(world)["phase"] == "Settled"
    assert not fresh(world)


async def test_without_room_for_both_no_stable_pod_goes_and_it_says_what_would_help():
    world = await deployed(gpus=3, rollout=BESIDE)
    world.foreign_pod("notebook", "a1", 1)
    stable = rollout(world)["stable"]
    await changed(world, rollout=BESIDE)
    await go_on(world, 80, seconds=60)
    assert counts(world) == {stable: 2}
    assert rollout(world)["summary"] == "1/2 0% inconclusive"
    assert "set baseline to false" in world.condition("Progressing")["message"]
    world.api.remove(("Pod", "other", "notebook"))
    await until(world, "Settled")
    assert rollout(world)["stable"] != stable


async def test_fresh_pods_that_do_not_start_are_not_blamed_on_the_canary():
    world = await deployed(replicas=4, rollout=BESIDE)
    await changed(world, replicas=4, rollout=BESIDE)
    await go_on(world, 1)
    world.fates[rollout(world)["baseline"]] = Fate(waiting="ImagePullBackOff")
    await go_on(world, 80, seconds=60)
    assert rollout(world)["phase"] == "Canary"
    assert "ImagePullBackOff" in rollout(world)["because"]
    assert "pods of its baseline are not ready" in rollout(world)["because"]
    assert not rollout(world).get("failed")


# crashes


@pytest.mark.timeout(400)  # a whole history for each write
@pytest.mark.parametrize(("bad", "end"), [(0.0, "Settled"), (300.0, "Aborted")])
async def test_a_crash_after_each_write_leads_to_the_same_end_and_leaves_no_fresh_pod(bad, end):
    spec = {**BESIDE, "steps": STEPS[:1]}

    async def play(crash_after=None):
        world = await deployed(rollout=spec)
        await changed(world, rollout=spec)
        world.evidences.bad = bad
        before = len(world.api.writes)
        world.api.crash_after = None if crash_after is None else before + crash_after
        for _ in range(45):
            try:
                await go_on(world, 1, seconds=30)
            except Crash:
                world.restart()
            assert len(world.pods()) <= 3, "two replicas and one more"
        return world, len(world.api.writes) - before

    plain, count = await play()
    assert rollout(plain)["phase"] == end
    assert not fresh(plain)
    for number in range(count):
        crashed, _ = await play(number)
        assert crashed.shape() == plain.shape(), f"crash after write {number}"
