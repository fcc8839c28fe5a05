"""A pair is as strong as its weaker half: no pod of either gets the load of several."""

import pytest

from tidegate.core.canary import shares
from tidegate.core.canary.advance import advance
from tidegate.core.canary.policy import Step
from tidegate.core.canary.seen import PoolSize, RevisionPods, Seen
from tidegate.core.canary.state import Failed, Leaving, Phase, State

from .rollouts import policy

HALF = policy(steps=(Step(500, 60.0, is_judged=True),))
POOLS = {"prefill": PoolSize(8), "decode": PoolSize(8)}
CANARY = State(Phase.CANARY, "a", 900.0, canary="b", ready_since=950.0)
ABORTING = State(
    Phase.ABORTING,
    "a",
    990.0,
    canary="b",
    failed=(Failed("b", 990.0, "slow"),),
    leaving=(Leaving("b", 500),),
)


def pair(prefill: int, decode: int) -> RevisionPods:
    ready = {"prefill": prefill, "decode": decode}
    return RevisionPods(ready, ready, prefill + decode)


def seen(pods, wanted="b", wishes=HALF) -> Seen:
    return Seen(1000.0, wanted, wishes, POOLS, pods)


@pytest.mark.parametrize(
    ("canary", "share"),
    [
        (pair(4, 4), 500),
        (pair(1, 4), 125),
        (pair(4, 1), 125),
        (pair(3, 2), 250),
        (pair(0, 4), 0),
    ],
)
def test_a_canary_gets_no_more_than_its_weaker_half_bears(canary, share):
    told = shares.of(CANARY, seen({"a": pair(4, 4), "b": canary}))
    assert told.get("b", 0) == share
    assert sum(told.values()) == 1000


@pytest.mark.parametrize("stable", [pair(1, 6), pair(6, 1)])
def test_a_stable_pair_that_lacks_one_half_is_helped_by_the_pods_that_a_canary_replaced(stable):
    pods = {"a": stable, "b": pair(1, 1), "c": pair(1, 1)}
    tenth = policy(steps=(Step(100, 60.0, is_judged=True),))
    assert shares.of(CANARY, seen(pods, wishes=tenth))["c"] > 0
    assert shares.of(CANARY, seen({**pods, "a": pair(6, 6)}, wishes=tenth))["c"] == 0


@pytest.mark.parametrize(
    ("stable", "share"),
    [
        (pair(8, 8), 0),
        (pair(1, 8), 500),  # a prefill pod would have the load of eight
        (pair(8, 1), 500),
        (pair(4, 8), 500),  # what the step left it
        (pair(7, 8), 0),
    ],
)
def test_an_abort_waits_for_both_halves_of_stable(stable, share):
    told = shares.of(ABORTING, seen({"a": stable, "b": pair(4, 4)}))
    assert told == {"a": 1000 - share, "b": share}


def test_a_small_pool_that_has_what_the_step_left_it_is_no_reason_for_others_to_help():
    """Of three decode pods one is the canary's and one its baseline's: the share stays equal."""
    pools = {"prefill": PoolSize(8), "decode": PoolSize(3)}
    state = State(Phase.CANARY, "a", 900.0, "b", "a-baseline-b", ready_since=950.0)
    pods = {"a": pair(6, 1), "b": pair(1, 1), "a-baseline-b": pair(1, 1)}
    wishes = policy(steps=(Step(50, 60.0, is_judged=True),), has_baseline=True)
    told = shares.of(state, Seen(1000.0, "b", wishes, pools, pods))
    assert told == {"a": 900, "b": 50, "a-baseline-b": 50}


@pytest.mark.parametrize(("old", "stable"), [(pair(8, 1), "b"), (pair(4, 4), "a")])
def test_a_further_revision_is_compared_with_the_pair_that_bears_more(old, stable):
    """b has two prefill pods of eight and four decode pods: it bears a quarter."""
    state = State(Phase.PROMOTING, "a", 900.0, canary="b")
    assert advance(state, seen({"a": old, "b": pair(2, 4)}, wanted="c")).stable == stable
