"""A canary that is asked for and could never run is refused, with what to change."""

import pytest
from tests.unit.core.render import deployments

from tidegate.core.admission import rollout


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
     {"strategy": "RollingUpdate", "gate": False}, {"strategy": "Recreate", "gpuBudget": 0}],
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
    ],
)
def test_what_cannot_run_is_refused_with_the_number_that_works(given, field, fix):
    ((at, told),) = found(**given)
    assert at == field
    assert fix in told
