"""What the spec allows a rollout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.rollout_spec import RolloutSpec
from tidegate.core.canary import policy

GPUS = st.dictionaries(st.sampled_from(("unified", "prefill", "decode")), st.integers(1, 64))


def extra(budget, gpus):
    return policy.extra_pods(RolloutSpec(gpu_budget=budget), gpus, dict.fromkeys(gpus, 1))


@pytest.mark.parametrize(
    ("budget", "pods"),
    [
        (0, {"prefill": 0, "decode": 0}),
        (1, {"prefill": 1, "decode": 0}),
        (2, {"prefill": 0, "decode": 1}),
        (3, {"prefill": 1, "decode": 1}),
        (100_000, {"prefill": 33_334, "decode": 33_333}),
    ],
)
def test_a_budget_pays_for_as_many_of_both_halves(budget, pods):
    assert extra(budget, {"prefill": 1, "decode": 2}) == pods


@given(budget=st.integers(0, 100_000), gpus=GPUS.filter(bool))
def test_nothing_that_pays_for_a_pod_is_left_and_no_pool_waits_for_another(budget, gpus):
    pods = extra(budget, gpus)
    left = budget - sum(gpus[name] * count for name, count in pods.items())

    assert 0 <= left < min(gpus.values())
    assert min(pods.values()) >= budget // sum(gpus.values())
