"""A canary that is asked for and could never run is refused, with what to change."""

import pytest
from tests.unit.core.render import deployments

from tidegate.api.reasons import Reason
from tidegate.core.admission import review, rollout

from .resources import a_resource, seen, some_nodes


def found(gate=True, replicas=1, gpus=1, **changes):
    spec = deployments.spec(
        gate={"enabled": gate},
        pools={"unified": {"replicas": replicas, "tensorParallel": gpus}},
        rollout={"strategy": "Canary", **changes},
    )
    return [(one.field, one.fix) for one in rollout.check(spec)]


@pytest.mark.parametrize(
    "given",
    [{}, {"replicas": 2, "gpuBudget": 0}, {"gpus": 2, "gpuBudget": 2}, {"maxSurge": "50%"},
     {"strategy": "RollingUpdate", "gate": False}, {"strategy": "Recreate", "gpuBudget": 0},
     {"strategy": "RollingUpdate", "gpus": 4, "gpuBudget": 3},
     {"replicas": 2, "gpuBudget": 0, "steps": [{"weight": 50, "pause": "1m"}]},
     {"replicas": 2, "gpuBudget": 1, "steps": [{"weight": 99, "pause": "1m"}]}],
)  # fmt: skip
def test_what_can_run_is_let_in(given):
    assert found(**given) == []


@pytest.mark.parametrize(
    ("given", "field", "fix"),
    [
        ({"gate": False}, "spec.rollout.strategy", "turn the gate on"),
        ({"gpuBudget": 0}, "spec.rollout.gpuBudget", "raise it to 1,"),
        ({"gpus": 4, "gpuBudget": 3}, "spec.rollout.gpuBudget", "raise it to 4,"),
        ({"maxSurge": 0}, "spec.rollout.maxSurge", "raise it to 1,"),
        ({"replicas": 2, "gpus": 4, "gpuBudget": 3}, "spec.rollout.gpuBudget", "set it to 4"),
        (
            {"replicas": 3, "gpuBudget": 0, "steps": [{"weight": 67, "pause": "1m"}]},
            "spec.rollout.gpuBudget",
            "raise it to 1, lower the last weight to 66,",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_the_number_that_works(given, field, fix):
    ((at, told),) = found(**given)
    assert at == field
    assert fix in told


def told(gpus=8, can_judge=True, **parts):
    new = a_resource(spec__rollout=parts.pop("rollout", {}), **parts)
    found = review(None, new, seen(nodes=some_nodes(gpus=gpus), can_judge=can_judge))
    assert found.allowed, found.problems
    return [one.limit for one in found.warnings if one.reason == Reason.CANARY_IMPOSSIBLE]


ONE = {"unified": {"replicas": 1}}


@pytest.mark.parametrize(
    ("gpus", "parts"),
    [
        (2, {"spec__pools": ONE, "rollout": {"strategy": "Canary"}}),
        (1, {"spec__pools": ONE, "rollout": {}}),
        (2, {"rollout": {"strategy": "Canary"}}),
        (2, {"rollout": {"strategy": "RollingUpdate", "maxUnavailable": 0}}),
    ],
)
def test_where_the_nodes_leave_room_for_a_canary_nothing_is_said(gpus, parts):
    assert told(gpus, **parts) == []


@pytest.mark.parametrize(
    ("gpus", "parts"),
    [
        (1, {"spec__pools": ONE, "rollout": {"strategy": "Canary", "gpuBudget": 1}}),
        (2, {"rollout": {"strategy": "Canary", "maxUnavailable": 0}}),
        (2, {"rollout": {"maxUnavailable": 0}}),
    ],
)
def test_a_canary_that_the_nodes_have_no_room_for_is_told_with_the_numbers(gpus, parts):
    [said] = told(gpus, **parts)
    assert "may take 1 GPU beside the replicas, which leave 0 GPUs" in said


def test_without_a_prometheus_nothing_is_a_canary_by_default():
    assert told(2, can_judge=False, rollout={"maxUnavailable": 0}) == []
