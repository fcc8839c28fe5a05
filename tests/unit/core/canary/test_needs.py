"""What a rollout will need is told beforehand: pods and GPUs by step, time, traffic."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flow.documents import CONFIG, a_spec

from tidegate.api.llmdeployment import parse_spec
from tidegate.core import nodes, plan
from tidegate.core.canary import needs, needs_told, start_time
from tidegate.core.canary.needs import EVIDENCE_SECONDS
from tidegate.core.canary.start_time import Span

A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
STEPS = [{"weight": 10, "analysis": "10m"}, {"weight": 50, "analysis": "10m"}]


def some_nodes(**gpus_by_product):
    return [
        nodes.read(
            {
                "metadata": {
                    "name": name,
                    "labels": {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"},
                },
                "status": {"allocatable": {"nvidia.com/gpu": str(count)}},
            }
        )
        for name, (product, count) in gpus_by_product.items()
    ]


def needed(world=None, pools=None, can_judge=True, **rollout):
    pools = pools or {"unified": {"replicas": 4}}
    spec = parse_spec({"spec": a_spec(pools=pools, rollout={"steps": STEPS, **rollout})})
    there = world or some_nodes(a=(A100, 8))
    free = nodes.free_gpus(there, (), None, None)
    made = plan.make(spec, CONFIG, there, free, {})
    left = needs.beside_replicas(spec, made, there, free)
    return needs.of(spec, made, there, left, can_judge=can_judge)


def pods(step):
    return {(of.pool, of.product): of.pods for of in step.slices}


def test_each_step_has_its_share_of_the_pods_on_free_gpus():
    found = needed()
    first, second = found.steps

    assert (pods(first), pods(second)) == ({("unified", A100): 1}, {("unified", A100): 2})
    assert (first.extra_gpus, second.extra_gpus) == (1, 1), "maxSurge is 1"
    assert (dict(first.given_up), dict(second.given_up)) == ({"unified": 0}, {"unified": 1})
    assert (found.allowed_gpus, found.free_gpus, found.extra_gpus) == (1, 1, 1)
    assert found.is_possible


def test_within_the_budget_no_stable_pod_gives_way():
    second = needed(gpuBudget=2).steps[1]
    assert (second.extra_gpus, dict(second.given_up)) == (2, {"unified": 0})


def test_where_no_gpu_is_free_stable_pods_give_way_and_it_says_how_many_are_missing():
    found = needed(some_nodes(a=(A100, 4)), gpuBudget=2)
    first, second = found.steps

    assert (found.allowed_gpus, found.free_gpus) == (2, 0)
    assert [dict(step.given_up) for step in found.steps] == [{"unified": 1}, {"unified": 2}]
    assert (first.missing_gpus, second.missing_gpus) == (1, 2)
    assert found.is_possible
    assert any("stable pods give way" in said for said in needs_told.sentences(found))


def test_a_baseline_takes_as_many_pods_as_the_canary():
    first, second = needed(gpuBudget=4, baseline=True).steps
    assert (dict(first.baseline), first.extra_gpus) == ({"unified": 1}, 2)
    assert (dict(second.baseline), second.extra_gpus) == ({"unified": 2}, 4)
    assert dict(needed().steps[0].baseline) == {"unified": 0}


def test_a_baseline_without_a_place_is_said_to_wait():
    found = needed(pools={"unified": {"replicas": 2}}, gpuBudget=0, baseline=True)
    assert not found.is_possible


def test_pods_of_several_gpus_take_all_of_them():
    found = needed(pools={"unified": {"replicas": 2, "tensorParallel": 2}}, gpuBudget=2)
    [need] = found.steps[0].slices
    assert (need.pods, need.gpus, found.steps[0].extra_gpus) == (1, 2, 2)


def test_a_pair_takes_pods_of_both_halves():
    pools = {"prefill": {"replicas": 2}, "decode": {"replicas": 4, "tensorParallel": 1}}
    found = needed(pools=pools, gpuBudget=2)
    assert pods(found.steps[1]) == {("prefill", A100): 1, ("decode", A100): 2}
    assert dict(found.steps[1].given_up) == {"prefill": 0, "decode": 1}


def test_on_several_classes_the_canary_has_its_share_on_each():
    both = some_nodes(a=(A100, 6), h=(H100, 6))
    found = needed(both, pools={"unified": {"replicas": 4}}, gpuBudget=2)
    assert pods(found.steps[1]) == {("unified", A100): 1, ("unified", H100): 1}


@pytest.mark.parametrize(
    ("world", "pools", "rollout"),
    [
        (some_nodes(a=(A100, 1)), {"unified": {"replicas": 1}}, {"strategy": "Canary"}),
        (some_nodes(a=(A100, 4)), None, {"maxUnavailable": 0}),
    ],
    ids=["beside the only pod", "no pod may be missing"],
)
def test_a_canary_without_any_room_is_said_to_wait(world, pools, rollout):
    found = needed(world, pools, **rollout)
    assert not found.is_possible
    assert any("finds no room and waits" in said for said in needs_told.sentences(found))
    assert "now it finds no room" in needs_told.in_a_line(found)


def test_its_time_is_steps_and_warm_up_exactly_and_the_starts_of_pods_by_estimate():
    found = needed(warmUp="1m")
    # two steps that bring pods, and two of four pods that are left go one or two at a time
    assert found.fixed_seconds == 600 + 600 + 60
    assert found.starts == 2 + 2
    assert found.least.low == pytest.approx(1260 + 4 * found.start.low)
    assert found.least.high > found.least.seconds > found.least.low


def test_a_step_that_only_waits_has_no_warm_up_and_no_traffic_to_reach():
    found = needed(steps=[{"weight": 50, "pause": "5m"}])
    [step] = found.steps
    assert (found.fixed_seconds, step.requests_per_second) == (300.0, None)


def test_a_short_first_analysis_lasts_as_long_as_its_evidence_takes():
    short = [{"weight": 10, "analysis": "10s"}, {"weight": 50, "analysis": "10s"}]
    assert [step.seconds for step in needed(steps=short).steps] == [EVIDENCE_SECONDS, 10.0]


@pytest.mark.parametrize(
    ("weight", "bounds", "rate"),
    [(10, {}, 200 / (0.1 * 600)), (50, {}, 200 / (0.5 * 600)), (90, {}, 200 / (0.1 * 600)),
     (10, {"minSamples": 30}, 30 / (0.1 * 600))],
)  # fmt: skip
def test_it_tells_the_traffic_at_which_the_smaller_side_has_enough_samples(weight, bounds, rate):
    [step] = needed(steps=[{"weight": weight, "analysis": "10m"}], bounds=bounds).steps
    assert step.requests_per_second == pytest.approx(rate)


@pytest.mark.parametrize(
    ("can_judge", "rollout", "strategy"),
    [(False, {}, "RollingUpdate"), (True, {"strategy": "RollingUpdate"}, "RollingUpdate"),
     (True, {"strategy": "Recreate"}, "Recreate")],
)  # fmt: skip
def test_other_strategies_have_no_steps_and_still_take_gpus_and_time(can_judge, rollout, strategy):
    found = needed(can_judge=can_judge, **rollout)
    assert (found.strategy, found.steps, found.fixed_seconds) == (strategy, (), 0.0)
    assert found.starts >= 1
    assert needs_told.sentences(found)


def test_recreate_takes_no_gpu_beside_and_starts_all_pods_at_once():
    found = needed(strategy="Recreate")
    assert (found.extra_gpus, found.starts) == (0, 1)


def test_as_json_each_number_says_how_it_was_obtained():
    told = needs_told.wire(needed())
    assert told["stepsSeconds"]["how"] == "exact"
    assert told["podStartSeconds"]["how"] == told["leastSeconds"]["how"] == "estimated"
    assert {step["seconds"]["how"] for step in told["steps"]} == {"exact"}
    assert told["steps"][1]["stablePodsGivenUp"] == {"unified": 1}


def test_a_larger_model_is_expected_to_start_later_but_never_after_it_is_given_up():
    spec = parse_spec({"spec": a_spec()})
    there = some_nodes(a=(A100, 8))
    made = plan.make(spec, CONFIG, there, nodes.free_gpus(there, (), None, None), {})

    def start(weights_bytes: int) -> Span:
        [entry] = made.slices
        line = replace(entry.sizing.budget.weights, bytes=weights_bytes, low=0, high=2**60)
        budget = replace(entry.sizing.budget, weights=line)
        heavy = replace(entry, sizing=replace(entry.sizing, budget=budget))
        return start_time.of(replace(made, slices=(heavy,)))

    small, large, huge = (start(count) for count in (2**30, 2**37, 2**50))
    assert small.seconds < large.seconds < huge.seconds
    assert huge.low == huge.high == 2400.0


@given(
    replicas=st.integers(2, 12),
    free=st.integers(0, 12),
    budget=st.none() | st.integers(0, 12),
    weights=st.lists(st.integers(1, 99), min_size=1, max_size=4).map(sorted),
)
def test_no_step_takes_more_than_is_allowed_and_free(replicas, free, budget, weights):
    steps = [{"weight": weight, "analysis": "5m"} for weight in weights]
    given_budget = {} if budget is None else {"gpuBudget": budget}
    world = some_nodes(a=(A100, replicas + free))
    found = needed(world, {"unified": {"replicas": replicas}}, steps=steps, **given_budget)

    assert found.free_gpus <= min(found.allowed_gpus, free)
    for step in found.steps:
        canary, given_up = sum(of.pods for of in step.slices), step.given_up["unified"]
        assert canary >= 1
        assert given_up < replicas, "one stable pod always serves"
        assert canary - given_up == step.extra_gpus
        assert step.is_possible == (step.extra_gpus <= found.free_gpus)
        assert step.is_possible or canary == replicas, "only one that wants every place has none"
