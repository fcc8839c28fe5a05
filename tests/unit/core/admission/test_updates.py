"""What an update does, told before it is done; and the one that is refused."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.admission import review

from .resources import a_resource, changed, reasons, seen

PAIR = {"prefill": {"replicas": 1}, "decode": {"replicas": 2}}


def rolling(document, reason="RollingOut", status="True"):
    condition = {"type": "Reconciling", "status": status, "reason": reason}
    return {**document, "status": {"conditions": [condition]}}


def in_phase(document, phase, reason):
    """A deployment whose status tells of a rollout, as the operator writes it."""
    rollout = {"summary": phase, "phase": phase, "stable": "a", "canary": "b",
               "stepSince": "2026-01-01T00:00:00Z"}  # fmt: skip
    found = rolling(document, reason, "True" if reason != "CanaryInconclusive" else "False")
    return {**found, "status": {**found["status"], "rollout": rollout}}


def told(old, new, world=None):
    found = review(old, new, world or seen())
    return next(one for one in found.warnings if one.reason == Reason.UPDATE_ROLLS_PODS).limit


@pytest.mark.parametrize(
    "change",
    [
        {"spec__pools": {"unified": {"replicas": 4}}},
        {"spec__slo": {"timeToFirstToken": "1s"}},
        {"spec__rollout": {"maxSurge": 2}},
        {"spec__engine__imagePullPolicy": "Always"},
        {"metadata__labels": {"a": "b"}},
    ],
)
def test_what_shapes_no_pod_is_done_in_place_without_a_word(change):
    found = review(a_resource(), a_resource(**change), seen())

    assert found.allowed
    assert Reason.UPDATE_ROLLS_PODS not in reasons(found.warnings)
    assert found.access == ()


def test_what_shapes_pods_says_which_roll_and_why():
    old = a_resource(spec__pools=PAIR)
    said = told(old, changed(old, spec__engine__maxModelLen=4096))

    assert said.startswith("spec.engine.maxModelLen changed, so all pods are replaced")
    assert "1 of prefill, 2 of decode" in said
    assert "of weights into each GPU" in said


def test_another_model_says_that_both_answer_meanwhile():
    assert "both models answer" in told(a_resource(), a_resource(spec__model__id="Qwen/Qwen3-4B"))


@pytest.mark.parametrize(
    ("held_gpus", "rollout", "says"),
    [
        (2, {}, "capacity stays, in 2 steps"),
        (8, {}, "an old pod gives way first: down to 1 of unified stay ready"),
        (8, {"maxUnavailable": "100%"}, "down to 0 of unified stay ready"),
        (2, {"maxSurge": 0}, "down to 1 of unified stay ready"),
        (2, {"strategy": "Recreate"}, "none serves until the new ones are ready"),
    ],
)
def test_it_says_whether_capacity_drops(held_gpus, rollout, says):
    old = a_resource(spec__rollout=rollout)
    new = changed(old, spec__engine__image="vllm/vllm-openai:v0.33.0")

    assert says in told(old, new, seen(held_gpus))


@pytest.mark.parametrize(
    ("held_gpus", "rollout", "says"),
    [
        (2, {}, "it takes 1 GPU beside the replicas, at least 31m for its steps and"),
        (8, {}, "0 GPUs beside the replicas, and 1 of unified of the old pods give way"),
        (8, {"maxUnavailable": 0}, "now it finds no room, and waits for GPUs"),
        (2, {"strategy": "RollingUpdate"}, "capacity stays, in 2 steps"),
    ],
)
def test_a_canary_says_what_it_takes(held_gpus, rollout, says):
    old = a_resource(spec__rollout=rollout)
    new = changed(old, spec__engine__image="vllm/vllm-openai:v0.33.0")

    assert says in told(old, new, seen(held_gpus, can_judge=True))


def test_a_canary_on_nodes_that_nobody_knows_says_its_steps():
    old = a_resource()
    new = changed(old, spec__engine__image="vllm/vllm-openai:v0.33.0")

    said = told(old, new, seen(nodes=None, can_judge=True))
    assert "a canary with 5, 25, 50 % of the requests, then all" in said


def test_scaling_to_nothing_is_told():
    found = review(a_resource(), a_resource(spec__pools={"unified": {"replicas": 0}}), seen())

    assert reasons(found.warnings) == {Reason.SCALED_TO_ZERO}


@pytest.mark.parametrize("reason", ["RollingOut", "NoRoomToRoll"])
@pytest.mark.parametrize("there", [None, frozenset({"unified"})])
def test_another_mode_waits_for_the_end_of_a_rollout(reason, there):
    old = rolling(a_resource(), reason)
    found = review(old, changed(old, spec__pools=PAIR), seen(pools_there=there))

    assert reasons(found.problems) == {Reason.MODE_SWITCH_WHILE_ROLLING}


@pytest.mark.parametrize(
    ("phase", "reason"),
    [("Canary", "CanaryRunning"), ("Canary", "RolloutPaused"), ("Canary", "CanaryInconclusive"),
     ("Aborting", "RolloutAborted")],
)  # fmt: skip
def test_another_mode_waits_for_the_end_of_a_canary(phase, reason):
    old = in_phase(a_resource(), phase, reason)
    found = review(old, changed(old, spec__pools=PAIR), seen(pools_there=frozenset({"unified"})))

    assert reasons(found.problems) == {Reason.MODE_SWITCH_WHILE_ROLLING}


@pytest.mark.parametrize(
    ("phase", "reason"),
    [("Settled", "Settled"), ("Aborted", "RolloutAborted"), ("Promoting", "PodsStarting")],
)
def test_another_mode_may_come_once_a_canary_is_over(phase, reason):
    old = in_phase(a_resource(), phase, reason)

    assert review(old, changed(old, spec__pools=PAIR), seen()).allowed


def test_the_way_back_from_another_mode_is_always_open():
    old = rolling(a_resource(spec__pools=PAIR))
    new = changed(old, spec__pools={"unified": {"replicas": 2}})
    there = frozenset({"unified", "prefill", "decode"})

    assert review(old, new, seen(pools_there=there)).allowed


@pytest.mark.parametrize(
    "old",
    [
        a_resource(),
        rolling(a_resource(), status="False"),
        rolling(a_resource(), reason="Scaling"),
    ],
)
def test_another_mode_is_fine_while_nothing_rolls(old):
    assert review(old, changed(old, spec__pools=PAIR), seen()).allowed


def test_other_changes_may_be_made_while_a_rollout_runs():
    old = rolling(a_resource())

    assert review(old, changed(old, spec__engine__maxModelLen=4096), seen()).allowed
