"""Who must leave room for whom."""

import pytest
from tests.unit.gate.core import doubles

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.served import Served


def demand(prompt=100, output=60, **caller):
    return Demand(doubles.ask(prompt, **caller), output, 0.0, lambda _: None)


def asked(served, share, times=20, **of):
    """Let some ask, of whom a share is seated."""
    for number in range(times):
        one = demand(**of)
        served.asked(one)
        if number < share * times:
            served.seated(one)


def spare(served, **of):
    one = demand(**of)
    served.asked(one)
    return one.spare_prompt_tokens, one.spare_output_tokens


@pytest.mark.parametrize(
    ("others", "share", "expected"),
    [
        pytest.param({"prompt": 900}, 0.2, (900, 60), id="a larger size that is far worse off"),
        pytest.param({"prompt": 900}, 0.5, (0, 0), id="a larger size that is a little worse off"),
        pytest.param({"prompt": 30}, 0.0, (0, 0), id="a smaller size, which fits anywhere"),
        pytest.param({"priority": 7}, 0.9, (100, 60), id="a higher class"),
        pytest.param({"priority": 7}, 1.0, (0, 0), id="a higher class that has all it wants"),
        pytest.param({"priority": 2}, 0.0, (0, 0), id="a lower class"),
        pytest.param({"tenant": "poor"}, 0.2, (100, 60), id="a tenant with far fewer tokens"),
        pytest.param({"tenant": "modest", "times": 3}, 1.0, (0, 0), id="a tenant that wants few"),
    ],
)
def test_whoever_is_better_off_leaves_room(others, share, expected):
    served = Served()
    asked(served, 0.8)
    asked(served, share, **others)
    served.tick()
    assert spare(served) == expected


def test_without_contention_nobody_leaves_room():
    served = Served()
    asked(served, 1.0)
    asked(served, 1.0, prompt=900, priority=9, tenant="other")
    served.tick()
    assert spare(served) == (0, 0)


def test_what_is_past_is_forgotten():
    served = Served()
    asked(served, 1.0)
    asked(served, 0.0, priority=9)
    for _ in range(20 * 60):
        served.tick()
    assert spare(served) == (0, 0)
    assert len(served._sizes) == 1
