"""Clocks, deadlines and pauses: what was not seen is no verdict, and nobody is blamed for it."""

from dataclasses import replace

import pytest

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import record, tell
from tidegate.core.canary.advance import advance
from tidegate.core.canary.policy import Step
from tidegate.core.canary.state import Phase

from .rollouts import Rollout, judged, policy

DAY = 86_400.0
DECISIVE = policy(aborts_when_inconclusive=True)


def begun(**changes) -> Rollout:
    """A rollout of b, at its first step, that has just got its share."""
    rollout = Rollout(**changes)
    rollout.turn()
    rollout.wanted = "b"
    rollout.go_on(5)
    assert rollout.state.ready_since is not None
    return rollout


def looked(rollout: Rollout, asked_since: float | None, until: float) -> Phase | int:
    """Take a turn with a look that passes, of intervals up to a time; return where it leads."""
    rollout.now += 5.0
    look = judged(Verdict.PASS, 500.0, asked_since, until)
    rollout.state = record.rounded(advance(rollout.state, rollout.seen(look)), rollout.wishes)
    return rollout.state.step


def test_a_step_passes_by_what_was_seen_of_its_whole_time_and_not_by_what_was_before():
    rollout = begun()
    ready = rollout.state.ready_since
    rollout.now += 300.0
    assert looked(rollout, None, until=ready + 300) == 0, "no request of this step yet"
    assert looked(rollout, ready + 40, until=ready + 70) == 0
    assert rollout.state.judged_since == ready + 40
    assert looked(rollout, ready + 40, until=ready + 99) == 0, "an interval of it is not over"
    assert looked(rollout, ready + 40, until=ready + 100) == 1


@pytest.mark.parametrize("wishes", [policy(), DECISIVE], ids=["Pause", "Abort"])
@pytest.mark.parametrize("away", [1200.0, 20_000.0])
def test_who_was_away_looks_before_calling_a_canary_late(wishes, away):
    rollout = begun(wishes=wishes)
    rollout.go_on(30, Verdict.PASS)
    rollout.now += away
    state = rollout.turn(Verdict.PASS)
    assert (state.phase, state.step, state.failed) == (Phase.CANARY, 1, ())


@pytest.mark.parametrize("verdict", [None, Verdict.INCONCLUSIVE, Verdict.ERROR])
def test_a_look_after_the_deadline_that_tells_nothing_goes_back_where_the_spec_says_so(verdict):
    rollout = begun(wishes=DECISIVE)
    rollout.go_on(30, Verdict.PASS)
    rollout.now += 1200.0
    state = rollout.turn(verdict)
    assert state.phase is Phase.ABORTING
    assert "step 1 took longer than 670 s" in state.because


def test_data_that_comes_after_the_deadline_is_told_once_and_no_longer_called_too_little():
    rollout = begun(wishes=policy(steps=(Step(100, 600.0, True),)))
    said = []

    def let_pass(seconds: float, verdict: Verdict | None) -> None:
        for _ in range(int(seconds / 10)):
            before = rollout.state
            rollout.now += 10.0
            rollout.follow()
            rollout.turn(verdict)
            if told := tell.transition(before, rollout.state, rollout.wishes):
                said.append(told.reason)

    let_pass(1300, None)
    assert said == ["CanaryInconclusive"]
    rollout.asked_from = rollout.now
    let_pass(700, Verdict.PASS)
    assert said == ["CanaryInconclusive", "CanaryRunning", "Promoting", "Promoted"]


@pytest.mark.parametrize("steps", [
    (Step(100, 60.0, False), Step(500, 60.0, False)),
    (Step(100, 60.0, True),),
], ids=["pause", "analysis"])  # fmt: skip
@pytest.mark.parametrize("before", [0.0, 60.0])
@pytest.mark.parametrize("verdict", [None, Verdict.PASS])
def test_without_replicas_a_canary_waits_untried_and_unblamed(steps, before, verdict):
    rollout = Rollout(wishes=replace(DECISIVE, steps=steps))
    rollout.turn()
    rollout.wanted = "b"
    rollout.turn()
    if before:
        rollout.go_on(5)
    rollout.replicas = 0
    state = rollout.go_on(DAY, verdict, every=900.0)
    assert (state.phase, state.stable, state.step, state.failed) == (Phase.CANARY, "a", 0, ())
    assert "no replicas" in tell.message(state, rollout.wishes)
    rollout.replicas = 10
    rollout.turn()
    assert rollout.state.since == rollout.now, "its pods have the whole deadline to come"
    rollout.now += 500.0
    assert rollout.turn().phase is Phase.CANARY
    assert rollout.go_on(600, Verdict.PASS).stable == "b"


def test_after_a_scale_up_stable_may_be_ready_a_little_later_than_the_canary():
    rollout = begun()
    rollout.replicas = 0
    rollout.go_on(600)
    rollout.replicas = 10
    rollout.turn()
    rollout.now += 300.0
    rollout.pods = {"b": 1}
    assert rollout.turn().phase is Phase.CANARY
    rollout.now += 60.0
    rollout.pods = {"a": 10, "b": 1}
    assert rollout.turn().phase is Phase.CANARY


@pytest.mark.parametrize("ahead", [60.0, 3600.0, DAY])
@pytest.mark.parametrize(
    ("verdict", "phase"), [(Verdict.FAIL, Phase.ABORTED), (Verdict.PASS, Phase.SETTLED)]
)
def test_a_leader_whose_clock_was_ahead_holds_nothing_up(ahead, verdict, phase):
    rollout = Rollout()
    rollout.turn()
    rollout.wanted = "b"
    rollout.now += ahead
    rollout.go_on(30, Verdict.PASS)
    assert rollout.state.looked_at is not None
    rollout.now -= ahead
    assert rollout.go_on(600, verdict).phase is phase


def test_evidence_from_the_future_is_none_and_what_begins_anew_has_less_of_the_error_rate():
    rollout = Rollout()
    rollout.turn()
    rollout.wanted = "b"
    rollout.now += DAY
    rollout.go_on(30, Verdict.PASS)
    rollout.now -= DAY
    state = rollout.turn(Verdict.PASS)
    assert (state.evidence_since, state.stretch) == (None, 2)
    assert rollout.turn() == state, "once"


def test_a_clock_that_was_ahead_for_a_pause_or_an_abort_does_not_last():
    rollout = begun(wishes=policy(is_paused=True))
    rollout.now += DAY
    rollout.wishes = policy()
    rollout.turn()
    rollout.wishes = policy(is_paused=True)
    rollout.turn()
    rollout.now -= DAY
    rollout.turn()
    rollout.wishes = policy()
    state = rollout.turn()
    assert max(state.since, state.ready_since) <= rollout.now
    rollout.go_on(40, Verdict.FAIL)
    assert rollout.pods == {"a": 10, "b": 1}
    rollout.now -= DAY
    rollout.turn()
    rollout.go_on(130)
    assert rollout.pods == {"a": 10}, "failed pods stay two minutes, and no day"


# both down at once


def test_pods_of_both_that_come_back_together_are_no_reason_to_skip_the_analysis():
    """The canary's may be the first, by seconds; stable's time begins then."""
    rollout = begun()
    rollout.go_on(20, Verdict.PASS)
    rollout.down = {"a", "b"}
    rollout.go_on(144, every=6.0)
    rollout.down = {"a"}
    rollout.now += 1.0
    assert rollout.turn().phase is Phase.CANARY

    rollout.go_on(110)
    assert rollout.state.phase is Phase.CANARY
    rollout.go_on(15)
    assert rollout.state.stable == "b", "stable has had two minutes beside it"


@pytest.mark.parametrize("again", [False, True], ids=["a pass", "another in the same second"])
def test_a_scale_up_from_zero_is_no_reason_to_skip_the_analysis(again):
    rollout = begun()
    rollout.go_on(20, Verdict.PASS)
    rollout.replicas, rollout.pods = 0, {}
    for seconds in (5.0, 3600.0):
        rollout.now += seconds
        rollout.turn()
    rollout.replicas, rollout.down = 10, {"a", "b"}
    rollout.now += 5.0
    rollout.turn()
    rollout.follow()
    if again:
        rollout.turn()
    rollout.go_on(146, every=6.0)
    rollout.down = {"a"}
    rollout.now += 1.0

    assert rollout.turn().phase is Phase.CANARY


def test_a_change_just_after_a_scale_up_from_zero_is_a_canary():
    """A day without replicas is no day in which stable failed to serve."""
    rollout = Rollout()
    rollout.turn()
    rollout.replicas, rollout.pods = 0, {}
    for seconds in (60.0, DAY):
        rollout.now += seconds
        rollout.turn()
    rollout.replicas, rollout.pods, rollout.down = 10, {"a": 10}, {"a"}
    rollout.now += 5.0
    rollout.turn()
    rollout.now += 20.0
    rollout.wanted = "b"

    assert rollout.turn().phase is Phase.CANARY


def test_a_late_step_that_lacks_a_pod_is_doubtful_once_and_stays_it():
    """Each change is an Event and a write, which wakes the next pass."""
    rollout = begun()
    rollout.go_on(120, Verdict.PASS)
    rollout.down = {"b"}
    rollout.go_on(700, Verdict.PASS, every=2.0)
    doubts = set()
    for _ in range(100):
        rollout.now += 2.0
        rollout.turn(Verdict.PASS)
        doubts.add(rollout.state.doubtful_since)

    assert len(doubts) == 1
    assert None not in doubts
