"""A baseline that could never come beside its canary is told, with the number that works."""

import pytest
from tests.unit.core.render import deployments

from tidegate.core.admission import baseline

PAUSES = [{"weight": 10, "pause": "5m"}]
HALF = [{"weight": 10, "pause": "5m"}, {"weight": 50, "analysis": "5m"}]


def found(replicas=2, gpus=1, pools=None, gate=True, **changes):
    alone = {"unified": {"replicas": replicas, "tensorParallel": gpus}}
    spec = deployments.spec(
        gate={"enabled": gate},
        pools=pools or alone,
        rollout={"strategy": "Canary", "baseline": True, "steps": HALF, **changes},
    )
    return [(one.field, one.limit, one.fix) for one in baseline.check(spec)]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"replicas": 4, "gpuBudget": 0},
        {"replicas": 1, "gpuBudget": 2},
        {"gpus": 2, "gpuBudget": 2},
        {"gpuBudget": 0, "baseline": False},
        {"gpuBudget": 0, "strategy": "RollingUpdate"},
        {"gpuBudget": 0, "gate": False},
        {"replicas": 1, "gpuBudget": 0, "strategy": None},
    ],
)
def test_nothing_is_said_of_a_baseline_that_has_room_or_that_nobody_asked_for(given):
    assert found(**given) == []


@pytest.mark.parametrize(
    ("given", "field", "needs", "fix"),
    [
        ({"gpuBudget": 0}, "gpuBudget", "needs 3 pods (1 of the canary", "raise it to 1,"),
        ({"replicas": 3, "gpuBudget": 0}, "gpuBudget", "needs 4 pods (2 of the", "raise it to 1,"),
        ({"gpus": 4, "gpuBudget": 3}, "gpuBudget", "may have 2", "raise it to 4,"),
        ({"replicas": 1, "gpuBudget": 1}, "gpuBudget", "may have 2", "raise it to 2,"),
        ({"replicas": 1}, "maxSurge", "needs 3 pods", "raise it to 2,"),
        ({"maxSurge": 0}, "maxSurge", "needs 3 pods", "raise it to 1,"),
    ],
)
def test_one_that_never_finds_room_is_told_with_the_number_that_works(given, field, needs, fix):
    ((at, limit, told),) = found(**given)
    assert at == f"spec.rollout.{field}"
    assert needs in limit
    assert fix in told


def test_a_pair_is_told_the_budget_with_which_both_halves_have_room():
    pools = {"prefill": {"replicas": 2}, "decode": {"replicas": 2, "tensorParallel": 2}}
    told = found(pools=pools, gpuBudget=2)
    assert [fix.partition(",")[0] for _, _, fix in told] == ["raise it to 3"]
    assert found(pools=pools, gpuBudget=3) == []


def test_where_no_step_is_judged_nothing_would_be_compared():
    ((at, limit, _),) = found(steps=PAUSES)
    assert at == "spec.rollout.baseline"
    assert "no step has analysis" in limit
