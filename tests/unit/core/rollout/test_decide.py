"""Single decisions, as a table: what is there, what is wanted, what is asked for."""

import pytest

from tidegate.core.rollout import decide, slices
from tidegate.core.rollout.slices import PoolLimits, Slice, State


def a_slice(revision, target, asked, ready=None, pool="unified", **more):
    ready = asked if ready is None else ready
    return Slice(
        name=f"{pool}-{revision}",
        pool=pool,
        revision=revision,
        gpus=1,
        target=target,
        asked=asked,
        ready=ready,
        **{
            "bound": asked,
            "live": asked,
            "nodes": frozenset({"n"}),
            "holding": frozenset({"n"}),
            **more,
        },
    )


def decided(entries, replicas, free, surge=1, unavailable=1, strategy="RollingUpdate"):
    pools = {"unified": slices.limits(replicas, surge, unavailable)}
    return decide.decide(entries, pools, {"n": free}, strategy, "new")


@pytest.mark.parametrize(
    ("why", "entries", "replicas", "free", "asked", "state"),
    [
        (
            "the first pods are asked for",
            [a_slice("new", 2, 0, exists=False)],
            2, 0, {"new": 2}, "Starting",
        ),
        ("more replicas only add", [a_slice("new", 4, 2)], 4, 0, {"new": 4}, "Scaling"),
        ("fewer replicas only take", [a_slice("new", 1, 3)], 1, 0, {"new": 1}, "Scaling"),
        ("at rest nothing changes", [a_slice("new", 2, 2)], 2, 5, {"new": 2}, "Settled"),
        (
            "a new pod comes where a GPU is free",
            [a_slice("old", 0, 2), a_slice("new", 2, 0)],
            2, 1, {"old": 2, "new": 1}, "Rolling",
        ),
        (
            "an old pod gives way where none is",
            [a_slice("old", 0, 2), a_slice("new", 2, 0)],
            2, 0, {"old": 1, "new": 0}, "Rolling",
        ),
        (
            "no second one gives way before the first is replaced",
            [a_slice("old", 0, 1), a_slice("new", 2, 1, ready=0)],
            2, 0, {"old": 1, "new": 1}, "Rolling",
        ),
        (
            "an old pod goes when its successor is ready",
            [a_slice("old", 0, 2), a_slice("new", 2, 1)],
            2, 0, {"old": 1, "new": 1}, "Rolling",
        ),
        (
            "old pods that do not serve go first",
            [a_slice("old", 0, 3, ready=1), a_slice("new", 3, 0)],
            3, 0, {"old": 1, "new": 0}, "Rolling",
        ),
        (
            "nothing more goes while GPUs are about to be free",
            [a_slice("old", 0, 1, ending=1, ending_on={"n": 1}), a_slice("new", 2, 0)],
            2, 0, {"old": 1, "new": 0}, "Rolling",
        ),
        (
            "a third revision replaces the second before the first",
            [a_slice("older", 0, 2), a_slice("old", 0, 1, ready=0), a_slice("new", 2, 0)],
            2, 0, {"older": 2, "old": 0, "new": 0}, "Rolling",
        ),
        ("everything goes at zero", [a_slice("old", 0, 2)], 0, 0, {"old": 0}, "Rolling"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)  # fmt: skip
def test_a_decision(why, entries, replicas, free, asked, state):
    decision = decided(entries, replicas, free)
    assert {name.split("-")[1]: count for name, count in decision.replicas.items()} == asked
    assert decision.state == State(state)


def test_nothing_may_move_is_said_with_the_numbers():
    entries = [a_slice("old", 0, 2), a_slice("new", 2, 0)]
    decision = decided(entries, 2, free=0, unavailable=0)
    assert decision.state == State.BLOCKED
    assert decision.replicas == {"unified-old": 2, "unified-new": 0}
    for part in ("needs 1 GPU", "0 free", "2 pods are ready", "2 of 2 must stay", "maxUnavailable"):
        assert part in decision.message


def test_an_old_slice_is_deleted_when_its_last_pod_is_gone():
    done = a_slice("old", 0, 0)
    assert decided([done, a_slice("new", 1, 1)], 1, 0).delete == ("unified-old",)
    ending = a_slice("old", 0, 0, ending=1)
    assert decided([ending, a_slice("new", 1, 1)], 1, 0).delete == ()


def test_an_empty_slice_of_a_revision_that_may_get_pods_again_is_kept():
    entries = [a_slice("old", 0, 0), a_slice("older", 0, 0), a_slice("new", 1, 1)]
    pools = {"unified": slices.limits(1, 1, 1)}
    decision = decide.decide(entries, pools, {"n": 0}, "RollingUpdate", "new", {"old"})
    assert decision.delete == ("unified-older",)


@pytest.mark.parametrize(
    ("why", "entries", "replicas", "asked"),
    [
        (
            "a canary's pod waits for the GPU of the old one that gave way",
            [a_slice("old", 3, 3, ending=1), a_slice("new", 1, 0)],
            4, {"old": 3, "new": 0},
        ),
        (
            "and comes when that has ended",
            [a_slice("old", 3, 3), a_slice("new", 1, 0)], 4, {"old": 3, "new": 1},
        ),
        (
            "so does the last one of a promotion",
            [a_slice("old", 0, 0, ending=1), a_slice("new", 4, 3)], 4, {"old": 0, "new": 3},
        ),
        (
            "beside the only pod there is no budget for another one",
            [a_slice("old", 1, 1), a_slice("new", 1, 0)], 1, {"old": 1, "new": 0},
        ),
        (
            "a scale-up is no rollout: it waits for no pod of its own revision",
            [a_slice("new", 4, 2, ending=1)], 4, {"new": 4},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_within_a_budget_of_gpus(why, entries, replicas, asked):
    pools = {"unified": PoolLimits(replicas, 0, 1, counts_ending=True)}
    decision = decide.decide(entries, pools, {"n": 4}, "RollingUpdate", "new")
    assert {name.split("-")[1]: count for name, count in decision.replicas.items()} == asked


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "resolved"),
    [
        (4, 1, 1, (1, 1)),
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (3, "0%", "10%", (0, 1)),
        (2, 0, 0, (0, 1)),
        (0, "50%", "50%", (0, 1)),
    ],
)
def test_limits_are_rounded_as_kubernetes_rounds_them(replicas, surge, unavailable, resolved):
    limit = slices.limits(replicas, surge, unavailable)
    assert (limit.surge, limit.unavailable) == resolved
