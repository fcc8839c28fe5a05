"""What a user and kstatus read from the conditions."""

import pytest

from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.reasons import Reason
from tidegate.core import status
from tidegate.core.causes import Cause
from tidegate.core.plan import Plan
from tidegate.core.rollout.slices import Decision, State
from tidegate.core.status import PoolPods, Seen, Trouble, conditions

NOW = 1_800_000_000.0
NO_SLICES = Plan("Unified", "abcd0123", "0.32.0", (), (), ())


def seen(state=State.STARTING, *, ready=1, desired=2, cause=None, trouble=None, **more):
    return Seen(
        **{
            "generation": 3,
            "pools": (PoolPods("unified", "abcd0123", desired, ready, ready),),
            "is_serving": ready > 0,
            "plan": None if trouble else NO_SLICES,
            "decision": None if trouble else Decision({}, (), state, "unified: 1 of 2 pods ready"),
            "trouble": trouble,
            "cause": cause,
            **more,
        }
    )


def told(observed, previous=None, now=NOW):
    return status.make(observed, previous, now)


def of(document: LLMDeploymentStatus, kind: str):
    return next(entry for entry in document.conditions if entry.type == kind)


OOM = Cause(Reason.CUDA_OOM_AT_LOAD, "pod p: out of memory", "p")


@pytest.mark.parametrize(
    ("observed", "ready", "reconciling", "stalled", "reason"),
    [
        (seen(State.SETTLED, ready=2), "True", "False", "False", Reason.READY),
        (seen(State.SETTLED, ready=0, desired=0), "True", "False", "False", Reason.SCALED_TO_ZERO),
        (seen(State.STARTING), "False", "True", "False", Reason.PODS_STARTING),
        (seen(State.SCALING), "False", "True", "False", Reason.SCALING),
        (seen(State.ROLLING), "False", "True", "False", Reason.ROLLING_OUT),
        (seen(State.BLOCKED), "False", "False", "True", Reason.NO_ROOM_TO_ROLL),
        (seen(State.STARTING, cause=OOM), "False", "True", "False", Reason.CUDA_OOM_AT_LOAD),
        (
            seen(trouble=Trouble(Reason.BUDGET_TOO_SMALL, "too small")),
            "False", "False", "True", Reason.BUDGET_TOO_SMALL,
        ),
        (
            seen(trouble=Trouble(Reason.REFERENCE_MISSING, "no Secret hf", waits=True)),
            "False", "True", "False", Reason.REFERENCE_MISSING,
        ),
    ],
)  # fmt: skip
def test_ready_reconciling_and_stalled_agree(observed, ready, reconciling, stalled, reason):
    document = told(observed)
    assert [of(document, kind).status for kind in ("Ready", "Reconciling", "Stalled")] == [
        ready, reconciling, stalled,
    ]  # fmt: skip
    assert document.reason == of(document, "Ready").reason == reason
    assert document.observed_generation == 3
    assert {entry.observed_generation for entry in document.conditions} == {3}


@pytest.mark.parametrize(
    ("observed", "fits", "available"),
    [
        (seen(State.SETTLED), "True", "True"),
        (seen(ready=0), "True", "False"),
        (seen(trouble=Trouble(Reason.WEIGHTS_DO_NOT_FIT, "x"), ready=1), "False", "True"),
        (seen(trouble=Trouble(Reason.INVALID_SPEC, "x"), ready=0), "Unknown", "False"),
    ],
)
def test_the_budget_and_what_serves_are_told_apart(observed, fits, available):
    document = told(observed)
    assert of(document, "BudgetFits").status == fits
    assert of(document, "Available").status == available


def test_the_time_of_a_condition_moves_with_its_status_only():
    first = told(seen(State.STARTING))
    second = told(seen(State.ROLLING), first, NOW + 100)
    third = told(seen(State.SETTLED), second, NOW + 200)
    times = [of(entry, "Ready").last_transition_time for entry in (first, second, third)]
    assert times[0] == times[1] != times[2]
    assert told(seen(State.SETTLED), third, NOW + 300) == third


@pytest.mark.parametrize(
    ("pools", "text"),
    [
        ((PoolPods("unified", "r", 2, 2, 2),), "2/2"),
        ((PoolPods("prefill", "r", 1, 1, 1), PoolPods("decode", "r", 2, 0, 0)),
         "prefill 1/1, decode 0/2"),
        ((), None),
    ],
)  # fmt: skip
def test_the_pods_column(pools, text):
    assert told(seen(pools=pools)).pods == text


class TestDeadline:
    """`rollout.progressDeadline`: time without progress, told from what is stored."""

    def begun(self):
        return told(seen(State.ROLLING, progress_deadline_seconds=600))

    def after(self, seconds, previous, **more):
        observed = seen(State.ROLLING, progress_deadline_seconds=600, **more)
        return told(observed, previous, NOW + seconds)

    def test_it_stalls_when_it_has_passed(self):
        assert of(self.after(600, self.begun()), "Stalled").status == "False"
        late = self.after(601, self.begun(), cause=OOM)
        assert of(late, "Stalled").reason == Reason.PROGRESS_DEADLINE_EXCEEDED
        assert "600 s" in of(late, "Stalled").message
        assert "out of memory" in of(late, "Stalled").message
        assert of(late, "Reconciling").status == "False"

    def test_progress_puts_it_off(self):
        late = self.after(1100, self.begun(), last_progress=NOW + 550)
        assert of(late, "Stalled").status == "False"

    def test_it_stays_stalled_until_there_is_progress(self):
        late = self.after(601, self.begun())
        later = self.after(5000, late, last_progress=NOW + 10)
        assert of(later, "Stalled").status == "True"
        again = self.after(5010, later, last_progress=NOW + 5005)
        assert of(again, "Stalled").status == "False"
        assert of(again, "Reconciling").status == "True"

    def test_a_new_spec_begins_anew(self):
        late = self.after(601, self.begun())
        fresh = self.after(602, late, generation=4)
        assert of(fresh, "Stalled").status == "False"

    def test_a_clock_that_was_set_back_stalls_nothing(self):
        assert of(self.after(-3600, self.begun()), "Stalled").status == "False"


def test_texts_are_cut_to_what_the_schema_takes():
    document = told(seen(trouble=Trouble(Reason.INVALID_SPEC, "x" * 10_000)))
    assert len(of(document, "Ready").message) == conditions.MESSAGE_LIMIT
    LLMDeploymentStatus.model_validate(document.wire())


def test_warnings_are_told_within_the_bounds_of_the_schema():
    many = tuple(f"PeakDoesNotFit: unified: {number} " + "x" * 2000 for number in range(50))
    written = told(seen(State.SETTLED, ready=2, warnings=many))

    assert len(written.warnings) == 32
    assert all(len(line) == 1024 for line in written.warnings)
    assert LLMDeploymentStatus.model_validate(written.wire()) == written
