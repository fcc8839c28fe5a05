"""The phases of a rollout, in the order in which people meet them."""

from dataclasses import replace

import pytest

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import record, targets, timing
from tidegate.core.canary.policy import Command, Step
from tidegate.core.canary.state import Failed, Phase, State

from .rollouts import Rollout, policy


def begun(**changes) -> Rollout:
    """A rollout of b, at its first step, that has just got its share."""
    rollout = Rollout(**changes)
    rollout.turn()
    rollout.wanted = "b"
    rollout.go_on(5)
    assert rollout.state.phase is Phase.CANARY
    return rollout


def commanded(action: str, revision: str = "b", token: str = "1"):
    return policy(command=Command(action, revision, token))


def test_a_new_deployment_is_settled_on_its_first_revision():
    state = Rollout(pods={}).turn()
    assert (state.phase, state.stable, state.canary) == (Phase.SETTLED, "a", None)


@pytest.mark.parametrize(
    ("strategy", "pods", "phase", "step", "share"),
    [
        ("Canary", {"a": 10, "b": 1}, Phase.CANARY, 0, 100),
        ("Canary", {"a": 7, "b": 3}, Phase.CANARY, 1, 300),
        ("Canary", {"a": 5, "b": 5}, Phase.CANARY, 2, 500),
        ("Canary", {"a": 3, "b": 7}, Phase.PROMOTING, 0, 700),  # no step has as many
        ("RollingUpdate", {"a": 9, "b": 1}, Phase.PROMOTING, 0, 100),
    ],
)
def test_a_rollout_whose_status_is_lost_goes_on_by_its_pods_and_nothing_is_taken_unjudged(
    strategy, pods, phase, step, share
):
    rollout = Rollout(wanted="b", pods=pods, wishes=policy(strategy=strategy))
    state = rollout.turn()
    assert (state.phase, state.stable, state.canary) == (phase, "a", "b")
    assert (state.step, rollout.shares()["b"]) == (step, share)
    assert (state.judged_since, state.is_judged) == (None, False)


def test_every_step_passes_and_the_new_revision_is_the_stable_one():
    rollout = begun()
    phases = []
    for _ in range(80):
        state = rollout.go_on(5, Verdict.PASS)
        phases.append((state.phase, state.step))
    assert list(dict.fromkeys(phases)) == [
        (Phase.CANARY, 0), (Phase.CANARY, 1), (Phase.CANARY, 2), (Phase.PROMOTING, 2),
        (Phase.SETTLED, 0),
    ]  # fmt: skip
    assert (state.stable, state.canary) == ("b", None)


def test_a_step_lasts_at_least_its_time_from_the_first_request_after_the_warm_up():
    rollout = begun()
    rollout.go_on(65, Verdict.PASS)
    assert rollout.state.step == 0, "60 s of analysis begin after 10 s of warm-up"
    rollout.go_on(30, Verdict.PASS)
    assert rollout.state.step == 1


def test_a_failure_takes_it_back_at_once_and_all_requests_go_to_stable():
    rollout = begun()
    rollout.go_on(20, Verdict.PASS)
    rollout.go_on(20, Verdict.FAIL)
    assert rollout.state.phase is Phase.ABORTED
    assert rollout.state.because == "it is Fail"
    assert rollout.shares() == {"a": 1000, "b": 0}


def test_pods_of_a_failed_revision_stay_to_be_looked_at_and_then_go():
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    assert rollout.pods == {"a": 10, "b": 1}
    rollout.go_on(130)
    assert rollout.pods == {"a": 10}


def test_no_failed_pod_is_kept_where_stable_needs_its_place():
    rollout = begun(extra=0)
    assert rollout.pods == {"a": 9, "b": 1}
    rollout.go_on(40, Verdict.FAIL)
    assert rollout.pods == {"a": 10}


@pytest.mark.parametrize(
    ("verdict", "message"),
    [(None, "no request reached"), (Verdict.INCONCLUSIVE, "it is Inconclusive")],
)
def test_without_a_verdict_it_waits_at_the_deadline_and_neither_advances_nor_goes_back(
    verdict, message
):
    rollout = begun()
    state = rollout.go_on(3000, verdict)
    assert (state.phase, state.step) == (Phase.CANARY, 0)
    assert state.doubtful_since is not None
    assert message in state.because
    assert rollout.shares() == {"a": 900, "b": 100}


def test_data_that_comes_back_needs_no_human():
    rollout = begun()
    rollout.go_on(3000)
    state = rollout.go_on(100, Verdict.PASS)
    assert state.step > 0
    assert state.doubtful_since is None


def test_without_a_verdict_it_goes_back_where_the_spec_says_so():
    rollout = begun(wishes=policy(aborts_when_inconclusive=True))
    assert rollout.go_on(800).phase is Phase.ABORTED


@pytest.mark.parametrize(("is_blocked", "phase"), [(False, Phase.ABORTING), (True, Phase.CANARY)])
def test_pods_that_do_not_come_are_its_fault_unless_there_is_no_room(is_blocked, phase):
    rollout = Rollout()
    rollout.turn()
    rollout.wanted, rollout.trouble, rollout.is_blocked = "b", "image missing", is_blocked
    rollout.turn()
    rollout.now += 800
    state = rollout.turn()
    assert state.phase is phase
    assert ("image missing" in state.because) is not is_blocked


def test_room_that_comes_after_the_deadline_gives_its_pods_the_time_that_they_need():
    rollout = Rollout(is_blocked=True)
    rollout.turn()
    rollout.wanted = "b"
    rollout.turn()
    rollout.now += 800
    assert rollout.turn().doubtful_since is not None
    rollout.now, rollout.is_blocked = rollout.now + 60, False
    state = rollout.turn()
    assert (state.phase, state.since, state.doubtful_since) == (Phase.CANARY, rollout.now, None)
    rollout.now += 800
    assert rollout.turn().phase is Phase.ABORTING, "now they have had it"


def test_a_revision_that_failed_is_remembered_until_somebody_says_retry():
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    rollout.wanted = "a"
    assert rollout.go_on(10).phase is Phase.SETTLED
    rollout.wanted = "b"
    state = rollout.go_on(10)
    assert state.phase is Phase.ABORTED
    assert "tried before" in state.because
    rollout.wishes = commanded("Retry")
    state = rollout.go_on(10)
    assert state.phase is Phase.CANARY
    assert state.evidence_since is None
    assert state.stretch == 2, "evidence that begins anew has less of the error rate"


@pytest.mark.parametrize("action", ["Promote", "Abort", "Retry"])
def test_a_command_of_another_revision_or_said_before_does_nothing(action):
    rollout = begun()
    rollout.wishes = commanded(action, revision="a")
    assert rollout.go_on(5).phase is Phase.CANARY
    rollout.wishes = commanded("Retry", token="2")
    rollout.go_on(5)
    rollout.wishes = commanded(action, token="2")
    assert rollout.go_on(5).phase is Phase.CANARY


@pytest.mark.parametrize(
    ("action", "meanwhile"),
    [("Abort", "it was promoted"), ("Promote", "another one is tried"), ("Promote", "it is back")],
)
def test_a_command_that_came_too_late_does_nothing_when_its_revision_comes_again(action, meanwhile):
    rollout = begun()
    match meanwhile:
        case "it was promoted":
            rollout.go_on(900, Verdict.PASS)
        case "another one is tried":
            rollout.wanted = "c"
        case "it is back":
            rollout.wanted = "a"
    rollout.turn()
    rollout.wishes = commanded(action)
    rollout.turn()
    rollout.wanted = "c"
    rollout.go_on(900, Verdict.PASS)
    assert (rollout.state.phase, rollout.state.stable) == (Phase.SETTLED, "c")
    rollout.wanted = "b"
    assert rollout.go_on(5).phase is Phase.CANARY


def test_a_command_that_comes_with_the_spec_that_it_is_of_is_carried_out():
    rollout = Rollout()
    rollout.turn()
    rollout.wanted, rollout.wishes = "b", commanded("Promote")
    assert rollout.turn().phase is Phase.PROMOTING


def test_promote_takes_it_without_further_steps():
    rollout = begun()
    rollout.wishes = commanded("Promote")
    rollout.go_on(30)
    assert (rollout.state.phase, rollout.state.stable) == (Phase.SETTLED, "b")


def test_pause_stops_the_clock_of_the_step_and_a_failure_still_takes_it_back():
    rollout = begun(wishes=policy(is_paused=True))
    state = rollout.go_on(5000, Verdict.PASS)
    assert (state.step, state.doubtful_since) == (0, None)
    assert rollout.go_on(40, Verdict.FAIL).phase is Phase.ABORTED


def test_resume_gives_the_step_the_time_that_it_had_left():
    rollout = begun(wishes=policy(is_paused=True))
    rollout.go_on(5000)
    rollout.wishes = policy()
    assert rollout.go_on(300).doubtful_since is None


def test_pods_that_got_ready_in_a_pause_are_asked_for_a_verdict_from_its_end_on():
    """The pause lasts two hours more before the first pod finds a GPU, and a minute afterwards."""
    wishes = policy(is_paused=True, aborts_when_inconclusive=True)
    rollout = Rollout(wishes=wishes)
    rollout.turn()
    rollout.wanted = "b"
    rollout.turn()
    rollout.now += 7200
    rollout.follow()
    rollout.turn()
    rollout.now += 60
    rollout.wishes = replace(wishes, is_paused=False)
    state = rollout.turn()
    assert (state.since, state.ready_since) == (rollout.now, rollout.now)
    state = rollout.go_on(90, Verdict.PASS)
    assert (state.phase, state.step) == (Phase.CANARY, 1)


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_a_revision_that_failed_once_gets_requests_when_it_is_rolled_out_without_a_canary(strategy):
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    rollout.wanted = "a"
    rollout.turn()
    rollout.wanted, rollout.wishes = "b", policy(strategy=strategy)
    assert rollout.turn().phase is Phase.PROMOTING
    rollout.pods = {"a": 1, "b": 9}
    assert rollout.shares() == {"a": 100, "b": 900}

    rollout.pods = {"b": 10}
    assert (rollout.turn().stable, rollout.state.failed) == ("b", ())
    rollout.wanted, rollout.pods = "c", {"b": 9, "c": 1}
    rollout.turn()
    assert rollout.shares() == {"b": 900, "c": 100}


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_a_revision_that_was_taken_back_is_not_rolled_out_by_another_strategy_alone(strategy):
    """It may be for the next one, and a gate that is switched off makes it RollingUpdate, too."""
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    rollout.wishes = policy(strategy=strategy)
    assert rollout.go_on(60).phase is Phase.ABORTED
    rollout.wishes = policy(strategy=strategy, command=Command("Retry", "b", "1"))
    assert rollout.turn().phase is Phase.PROMOTING


def test_a_stable_revision_that_a_former_version_noted_as_failed_keeps_its_requests():
    rollout = Rollout(wanted="b", pods={"b": 10})
    rollout.state = State(Phase.SETTLED, "b", rollout.now, failed=(Failed("b", 1.0, "once"),))
    rollout.wishes = policy(strategy="RollingUpdate")
    rollout.wanted, rollout.pods = "c", {"b": 10, "c": 1}
    rollout.turn()
    assert rollout.shares() == {"b": 909, "c": 91}


def test_a_new_spec_replaces_the_canary_and_is_held_against_the_same_stable():
    rollout = begun()
    rollout.go_on(100, Verdict.PASS)
    rollout.wanted = "c"
    state = rollout.turn()
    assert (state.canary, state.stable, state.step) == ("c", "a", 0)
    assert state.evidence_since is None


def test_a_new_spec_in_mid_promotion_is_held_against_the_revision_that_passed():
    rollout = begun()
    while rollout.state.phase is not Phase.PROMOTING:
        rollout.go_on(5, Verdict.PASS)
    rollout.pods = {"a": 2, "b": 8}
    rollout.wanted = "c"
    assert rollout.turn().stable == "b"
    assert rollout.shares() == {"b": 1000, "a": 0}


def test_a_fix_is_taken_at_once_when_nothing_has_served_for_two_minutes():
    rollout = Rollout(down={"a"})
    rollout.turn()
    rollout.turn()
    rollout.now += 120
    rollout.wanted = "b"
    state = rollout.turn()
    assert state.phase is Phase.PROMOTING
    assert "serves nobody" in state.because


def retried() -> Rollout:
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    rollout.wishes = commanded("Retry")
    return rollout


def applied() -> Rollout:
    rollout = Rollout()
    rollout.turn()
    rollout.wanted = "b"
    return rollout


@pytest.mark.parametrize("said", [applied, retried])
def test_a_restart_of_stable_as_a_revision_is_begun_skips_no_analysis(said):
    rollout = said()
    rollout.down = {"a"}
    assert rollout.turn().phase is Phase.CANARY
    rollout.now += 60
    rollout.down = set()
    rollout.turn()
    rollout.now += 100
    state = rollout.turn()
    assert (state.phase, state.stable_down_since) == (Phase.CANARY, None)


@pytest.mark.parametrize(
    ("serves", "is_blocked", "phase"),
    [
        (True, False, Phase.PROMOTING),
        (False, True, Phase.PROMOTING),  # stable's pods have the place that it needs
        (False, False, Phase.CANARY),  # its pods are coming
    ],
)
def test_a_fix_that_comes_as_stable_has_just_gone_down_waits_two_minutes_at_most(
    serves, is_blocked, phase
):
    rollout = applied()
    rollout.down, rollout.is_blocked = {"a"}, is_blocked
    rollout.turn()
    if serves:
        rollout.pods["b"] = 1
    rollout.now += 110
    assert rollout.turn().phase is Phase.CANARY
    assert timing.again_seconds(rollout.state, rollout.seen()) <= 10
    rollout.now += 10
    assert rollout.turn().phase is phase


def test_stable_that_goes_down_later_is_not_replaced_by_a_canary_that_has_no_room():
    rollout = applied()
    rollout.is_blocked = True
    rollout.turn()
    rollout.now += 60
    rollout.down = {"a"}
    rollout.turn()
    rollout.now += 200
    assert rollout.turn().phase is Phase.CANARY


def test_a_stable_revision_that_goes_down_for_long_makes_the_canary_the_service():
    rollout = begun()
    rollout.pods = {"b": 1}
    rollout.turn()
    assert rollout.shares() == {"b": 1000}
    rollout.now += 60
    assert rollout.turn().phase is Phase.CANARY
    rollout.now += 90
    assert rollout.turn().phase is Phase.PROMOTING


def test_scaling_restarts_nothing():
    rollout = begun()
    rollout.go_on(30, Verdict.INCONCLUSIVE)
    before = rollout.state
    rollout.replicas = 20
    state = rollout.go_on(10, Verdict.INCONCLUSIVE)
    assert (state.judged_since, state.since) == (before.judged_since, before.since)


@pytest.mark.parametrize(
    ("replicas", "extra", "canary", "stable"),
    [(1, 1, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1), (2, 1, 1, 2), (10, 0, 1, 9), (100, 0, 10, 90),
     (100, 4, 10, 94)],
)  # fmt: skip
def test_a_share_of_the_requests_has_that_share_of_the_pods(replicas, extra, canary, stable):
    rollout = Rollout(replicas=replicas, extra=extra, pods={"a": replicas})
    rollout.turn()
    rollout.wanted = "b"
    state = rollout.turn()
    wanted = targets.of(state, rollout.seen())
    assert wanted == {"a": {"unified": stable}, "b": {"unified": canary}}


def test_a_weak_stable_revision_is_helped_while_its_pods_come_back():
    rollout = begun(extra=0)
    while rollout.state.step < 2 or rollout.state.ready_since is None:
        rollout.go_on(5, Verdict.PASS)
    assert rollout.pods == {"a": 5, "b": 5}
    rollout.now += 30
    rollout.turn(Verdict.FAIL)
    assert rollout.state.phase is Phase.ABORTING
    assert rollout.shares() == {"a": 500, "b": 500}
    rollout.pods = {"a": 8, "b": 2}
    assert rollout.shares() == {"a": 1000, "b": 0}


def test_a_state_survives_the_status_as_it_is():
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    stored = record.to_status(rollout.state, rollout.wishes)
    assert record.from_status(type(stored).model_validate(stored.wire())) == rollout.state


def test_every_state_that_waits_for_the_clock_says_when():
    rollout = begun()
    assert timing.again_seconds(rollout.state, rollout.seen()) <= 10
    rollout.go_on(40, Verdict.FAIL)
    assert timing.again_seconds(rollout.state, rollout.seen()) <= 120


@pytest.mark.parametrize(
    ("replicas", "extra", "weight", "at_most"),
    [
        (10, 1, 100, 0),  # all of stable is there
        (2, 0, 100, 0),  # half of it is, and had nine tenths of the requests
        (2, 0, 500, 500),
        (10, 0, 300, 300),
        (3, 0, 200, 0),
    ],
)
def test_what_is_taken_back_never_gets_more_than_it_had(replicas, extra, weight, at_most):
    steps = (Step(weight, 60.0, is_judged=True),)
    rollout = Rollout(
        replicas=replicas, extra=extra, wishes=policy(steps=steps), pods={"a": replicas}
    )
    rollout.turn()
    rollout.wanted = "b"
    rollout.go_on(30.0)
    assert rollout.shares()["b"] == weight

    state = rollout.turn(Verdict.FAIL)
    while state.phase is Phase.CANARY:
        rollout.now += 5.0
        state = rollout.turn(Verdict.FAIL)

    assert state.phase is Phase.ABORTING
    assert rollout.shares()["b"] == at_most
