"""What is on its way out gets no more requests than it had, whichever way it was sent there."""

from dataclasses import replace

import pytest

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import record
from tidegate.core.canary.policy import Command, Step
from tidegate.core.canary.state import Failed, Leaving, Phase, State

from .rollouts import Rollout, policy


def trying(weight: int, replicas: int, extra: int = 0) -> Rollout:
    """A rollout of b, beside a, that has its share."""
    steps = (Step(weight, 60.0, is_judged=True),)
    rollout = Rollout(
        replicas=replicas, extra=extra, wishes=policy(steps=steps), pods={"a": replicas}
    )
    rollout.turn()
    rollout.wanted = "b"
    rollout.go_on(10)
    assert rollout.shares() == {"a": 1000 - weight, "b": weight}
    return rollout


def say(rollout: Rollout, action: str, revision: str) -> None:
    command = Command(action, revision, f"{action} {rollout.now}")
    rollout.wishes = replace(rollout.wishes, command=command)


def abort(rollout: Rollout) -> None:
    say(rollout, "Abort", "b")


def revert(rollout: Rollout) -> None:
    rollout.wanted = "a"


def fix(rollout: Rollout) -> None:
    rollout.wanted = "c"


def fix_at_once(rollout: Rollout) -> None:
    rollout.wanted, rollout.wishes = "c", replace(rollout.wishes, strategy="RollingUpdate")


def choose_a_failed_one(rollout: Rollout) -> None:
    rollout.state = replace(rollout.state, failed=(Failed("c", 1.0, "slow"),))
    rollout.wanted = "c"


WAYS = [abort, revert, fix, fix_at_once, choose_a_failed_one]


@pytest.mark.parametrize("replicas", [2, 3, 4])
@pytest.mark.parametrize("leave", WAYS)
def test_one_pod_with_a_twentieth_of_the_requests_never_gets_half_of_them(leave, replicas):
    rollout = trying(50, replicas)
    leave(rollout)
    rollout.turn()
    assert rollout.shares()["b"] <= 50
    assert sum(rollout.shares().values()) == 1000


@pytest.mark.parametrize("leave", [abort, revert, fix, choose_a_failed_one])
def test_stable_that_gave_half_of_its_pods_gets_all_requests_as_they_come_back(leave):
    rollout = trying(500, replicas=10)
    leave(rollout)
    rollout.turn()
    assert rollout.shares() == {"a": 500, "b": 500}
    rollout.pods = {"a": 7, "b": 3}
    assert rollout.shares() == {"a": 700, "b": 300}
    rollout.pods = {"a": 10}
    assert rollout.turn().phase in (Phase.ABORTED, Phase.SETTLED, Phase.CANARY)
    assert (rollout.shares(), rollout.state.leaving) == ({"a": 1000}, ())


@pytest.mark.parametrize("leave", [abort, revert, fix, choose_a_failed_one])
def test_what_leaves_has_less_when_it_loses_pods(leave):
    rollout = trying(500, replicas=10)
    leave(rollout)
    rollout.turn()
    rollout.pods = {"a": 5, "b": 2}
    assert rollout.shares() == {"a": 714, "b": 286}


def test_a_promotion_that_is_reverted_goes_back_as_the_old_pods_come():
    rollout = trying(500, replicas=10)
    say(rollout, "Promote", "b")
    rollout.turn()
    rollout.pods = {"a": 2, "b": 8}
    rollout.wanted = "a"
    rollout.turn()
    assert rollout.shares() == {"a": 200, "b": 800}


def test_pods_of_a_failed_revision_that_are_kept_get_nothing_while_another_is_tried():
    rollout = trying(100, replicas=3, extra=1)
    abort(rollout)
    rollout.go_on(30)
    assert rollout.pods == {"a": 3, "b": 1}
    rollout.wanted = "c"
    rollout.turn()
    rollout.pods["a"] = 2
    assert rollout.shares() == {"a": 1000, "b": 0}
    rollout.pods["a"] = 0
    assert rollout.shares() == {"b": 1000}, "a bad answer is better than none"
    rollout.pods["c"] = 1
    assert rollout.shares() == {"b": 0, "c": 1000}


def test_an_abort_that_a_fix_ends_early_does_not_send_all_to_half_of_stable():
    rollout = trying(500, replicas=10)
    rollout.now += 20
    rollout.turn(Verdict.FAIL)
    rollout.pods = {"a": 6, "b": 4}
    rollout.turn()
    rollout.wanted = "c"
    rollout.turn()
    assert rollout.shares() == {"a": 600, "b": 400}


def test_a_failed_revision_that_an_older_version_did_not_note_gets_nothing():
    rollout = Rollout(wanted="c", replicas=3, pods={"a": 2, "b": 1})
    rollout.state = State(Phase.CANARY, "a", rollout.now, "c", failed=(Failed("b", 1.0, "slow"),))
    assert rollout.shares() == {"a": 1000, "b": 0}


def test_a_canary_that_an_older_version_was_taking_back_gets_nothing_while_stable_can_serve():
    rollout = Rollout(wanted="b", replicas=2, extra=0, pods={"a": 1, "b": 1})
    failed = (Failed("b", 1.0, "slow"),)
    rollout.state = State(Phase.ABORTING, "a", rollout.now, "b", failed=failed)
    assert rollout.shares() == {"a": 1000, "b": 0}


def test_what_leaves_survives_the_status():
    state = State(Phase.SETTLED, "a", 1_000_000.0, leaving=(Leaving("b", 50), Leaving("c", 0)))
    assert record.rounded(state, policy()) == state
