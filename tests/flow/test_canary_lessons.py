"""What rollouts by other means were seen to do wrong, each in a cluster: here it must not happen.

The docstring of this folder lists all of these faults, with the test of each.
"""

from dataclasses import replace

import pytest

from tidegate.core.analysis.evidence import Metric
from tidegate.core.names import LABEL_POOL
from tidegate.flow.ports import Sides

from .api_server import Fault
from .documents import is_ending, labels_of
from .evidences import Evidences
from .scenarios import PAIR, image
from .test_canary import CANARY, changed, deployed, go_on, pods_of, rollout, until, weights
from .test_canary_faults import at_step, settled_on
from .world import A100, World

GIB = 2**30


def silent(evidences: Evidences, *, first_seconds: float) -> None:
    """Let no request reach the canary in the first seconds of the evidence."""
    whole = evidences.of

    async def of(ref, canary, baseline, since, now):
        sides = await whole(ref, canary, baseline, since, now)
        quiet = {"ended_well": 0.0, "ended_badly": 0.0, "ttft": None}
        own = tuple(
            replace(one, **quiet) if one.at < since + first_seconds else one for one in sides.canary
        )
        return Sides(own, sides.baseline)

    evidences.of = of


def answered(evidences: Evidences, change) -> None:
    """Change what Prometheus tells of the canary in each interval."""
    whole = evidences.of

    async def of(*asked):
        sides = await whole(*asked)
        return Sides(tuple(change(one) for one in sides.canary), sides.baseline)

    evidences.of = of


async def test_an_empty_answer_takes_nothing_back_and_advances_nothing():
    world = await deployed()

    async def nothing(*asked):
        return Sides((), ())

    world.evidences.of = nothing
    await changed(world)
    await go_on(world, 80, seconds=60)
    assert (rollout(world)["phase"], rollout(world)["step"]) == ("Canary", 0)
    assert rollout(world)["summary"] == "1/2 10% inconclusive"
    assert world.condition("CanaryHealthy")["reason"] == "CanaryInconclusive"


ASKED_OF_WHAT_FAILS = (3, 1, 1, 0, 1, 0, 1)
"""Requests by interval: a gate leaves out a pod that fails, for longer each time."""


async def test_a_canary_that_fails_all_requests_is_taken_back_though_gates_leave_it_out():
    """It gets fewer than any `minSamples`, since a second try makes them good elsewhere."""
    world = await deployed(evidences=Evidences(requests=300))
    whole = world.evidences.of

    async def of(*asked):
        sides = await whole(*asked)
        counts = (*ASKED_OF_WHAT_FAILS, *[0.0] * len(sides.canary))
        told = zip(sides.canary, counts, strict=False)
        own = [
            replace(one, ended_well=0.0, ended_badly=float(count), ttft=None) for one, count in told
        ]
        return Sides(tuple(own), sides.baseline)

    world.evidences.of = of
    await changed(world)
    await until(world, "Aborting")
    assert "survival: 0.00%" in world.condition("Promoted")["message"]


@pytest.mark.parametrize("name", ["refused", "abandoned"])
async def test_a_canary_that_serves_nobody_is_taken_back_whoever_is_blamed(name):
    """Engines that refuse all (4xx), and clients that leave before the first byte of all."""
    metrics = Evidences.metrics | {Metric.REFUSALS, Metric.ABANDONMENTS}
    world = await deployed(evidences=Evidences(requests=100, metrics=metrics))
    whole = world.evidences.of

    async def of(*asked):
        sides = await whole(*asked)
        known = {"refused": 0.0, "abandoned": 0.0}
        none = {**known, "ended_well": 0.0, "ttft": None, name: 100.0}
        return Sides(
            tuple(replace(one, **none) for one in sides.canary),
            tuple(replace(one, **known) for one in sides.baseline),
        )

    world.evidences.of = of
    await changed(world)
    await until(world, "Aborting")
    assert "1,000 " in world.condition("Promoted")["message"]


async def test_one_error_among_few_requests_takes_nothing_back():
    """In the first interval one of three requests fails: 33 %."""
    world = await deployed(evidences=Evidences(requests=3))
    first = []

    def one_failed(one):
        first.append(one.at)
        failed = one.at == min(first)
        return replace(one, ended_well=2.0, ended_badly=1.0) if failed else one

    answered(world.evidences, one_failed)
    await changed(world)
    await go_on(world, 60)
    assert rollout(world)["phase"] == "Canary"


async def test_several_series_where_one_was_expected_are_an_error_that_names_them():
    world = await deployed()
    fault = {Metric.TTFT_P95: '2 series where one was expected: ttft of le="0.1"'}
    answered(world.evidences, lambda one: replace(one, ttft=None, faults=fault))
    await changed(world)
    await go_on(world, 40)
    assert (rollout(world)["phase"], rollout(world)["step"]) == ("Canary", 0)
    assert rollout(world)["verdicts"]["errors"]
    assert "2 series" in world.condition("CanaryHealthy")["message"]


async def test_an_analysis_begins_with_traffic_and_not_with_pods():
    world = await deployed()
    silent(world.evidences, first_seconds=1200)
    await changed(world)
    await at_step(world, 0)
    ready_at = world.clock.now()
    await go_on(world, 60)
    assert "judgedSince" not in rollout(world), "the pods are ready, and nobody has asked them"
    while rollout(world)["step"] == 0:
        await go_on(world, 1)
    assert world.clock.now() - ready_at > 1200 + 300, "five minutes of requests, not of waiting"


async def test_a_deadline_counts_though_gates_can_not_be_told_of_weights():
    """The deadline must not wait behind the call that fails."""
    abort = {**CANARY, "onInconclusive": "Abort", "deadline": "10m"}
    world = await deployed(rollout=abort, evidences=Evidences(requests=0))
    await changed(world, rollout=abort)

    def no_configuration(verb, document):
        return Fault(500) if document["kind"] == "ConfigMap" else None

    world.api.write_fault = no_configuration
    for _ in range(40):
        await world.reconcile()
        world.step()
        world.clock.pass_by(60)
    assert rollout(world)["phase"] in ("Aborting", "Aborted")


async def test_after_a_failed_revision_another_spec_is_tried_at_once():
    world = await deployed()
    await changed(world)
    world.evidences.bad = 200.0
    await until(world, "Aborted")
    world.evidences.bad = 0.0
    await changed(world, "fixed")
    await go_on(world, 1)
    assert rollout(world)["phase"] == "Canary"
    await settled_on(world, "fixed")


@pytest.mark.parametrize("replicas", [2, 4])
async def test_promoted_is_not_said_before_the_last_old_pod_is_gone(replicas):
    world = await deployed(replicas=replicas)
    old = rollout(world)["stable"]
    await changed(world, replicas=replicas)
    for _ in range(220):
        await go_on(world, 1)
        if world.condition("Promoted")["status"] == "True":
            break
        assert rollout(world)["phase"] != "Settled"
    assert rollout(world)["stable"] != old
    assert not pods_of(world, old)
    assert len(world.ready("unified")) == replicas
    assert weights(world) == {rollout(world)["stable"]: 1000}


async def test_a_quick_second_change_of_a_pair_restarts_none_of_its_decoders():
    world = World(evidences=Evidences())
    world.node("a1", A100, 8)
    world.apply(pools=PAIR, rollout=CANARY)
    await world.run()
    old = rollout(world)["stable"]
    serving = {
        pod["metadata"]["uid"]
        for pod in pods_of(world, old)
        if labels_of(pod)[LABEL_POOL] == "decode"
    }
    for version in ("second", "third"):
        world.apply(pools=PAIR, rollout=CANARY, engine=image(version))
        for _ in range(3):
            await go_on(world, 1, seconds=3)
            there = {pod["metadata"]["uid"] for pod in pods_of(world, old) if not is_ending(pod)}
            assert serving <= there
    await at_step(world, 0)
    assert rollout(world)["stable"] == old


async def test_a_canary_whose_kv_cache_is_off_its_plan_is_taken_back_though_it_serves_well():
    plain = {"budget": {"kvCache": None}}
    world = await deployed(**plain)
    old = rollout(world)["stable"]
    world.engines.activations_bytes = 24 * GIB  # what the next engine finds beside its weights
    await changed(world, **plain)
    await until(world, "Aborted")
    assert "kvDrift: KV is -" in rollout(world)["because"]
    assert "off its plan" in rollout(world)["because"]
    assert weights(world)[old] == 1000
