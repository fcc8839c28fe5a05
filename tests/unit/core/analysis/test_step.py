"""What a step shows by itself counts, however long all was well before."""

from dataclasses import replace

import pytest

from tidegate.core.analysis import rules
from tidegate.core.analysis.evidence import Look, Metric, Verdict
from tidegate.core.analysis.judge import judge
from tidegate.core.analysis.step import judge_step

from .sides import EVERYTHING, SECONDS, side

JUDGED = {metric: rule for metric, rule in EVERYTHING.items() if metric is not Metric.KV_DRIFT}
BEFORE = 400
CANARY_BEFORE, STABLE_BEFORE = (side(name, 60, BEFORE) for name in ("canary", "stable"))


def joined(before, after):
    """Return intervals with others after them, in time."""
    offset = SECONDS * len(before)
    return [*before, *(replace(one, at=one.at + offset) for one in after)]


def at_later_step(intervals=20, step=1, of=JUDGED, requests=60, **fault):
    """Judge a canary that was good for 200 minutes, and is at a further step since."""
    canary = joined(CANARY_BEFORE, side("since", requests, intervals, **fault))
    stable = joined(STABLE_BEFORE, side("beside", requests, intervals))
    return judge_step(of, canary, stable, Look(step=step), SECONDS * BEFORE)


def test_an_equal_canary_passes_a_later_step():
    assert at_later_step().verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("fault", "metric"),
    [
        ({"failing": 0.1}, Metric.SURVIVAL),
        ({"ttft": 0.5}, Metric.TTFT_P50),
        ({"tpot": 0.05}, Metric.TPOT_P50),
    ],
)
def test_what_is_bad_since_this_step_takes_it_back_though_all_was_well_for_hours(fault, metric):
    judgement = at_later_step(**fault)
    assert judgement.verdict is Verdict.FAIL
    assert judgement.message.startswith("in this step alone")
    (failed,) = (one for one in judgement.measurements if one.metric is metric)
    assert failed.verdict is Verdict.FAIL, "the table shows what failed"


@pytest.mark.parametrize("fault", [{"failing": 0.04}, {"ttft": 0.33}, {"preempted": 0.06}])
@pytest.mark.parametrize("intervals", [4, 8])
def test_what_may_be_chance_still_does_not_pass_for_what_was_before(fault, intervals):
    assert at_later_step(intervals, requests=100, **fault).verdict is not Verdict.PASS


@pytest.mark.parametrize("requests", [0, 1, 5])
def test_a_step_needs_samples_of_its_own(requests):
    judgement = at_later_step(intervals=8, requests=requests)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "of at least" in judgement.message or "no request came" in judgement.message


def test_what_is_bad_lately_holds_a_step_of_hours_back():
    canary = joined(CANARY_BEFORE, side("late", intervals=60, failing=0.1))
    stable = joined(STABLE_BEFORE, side("beside", intervals=60))
    of = {Metric.SURVIVAL: EVERYTHING[Metric.SURVIVAL]}
    assert judge(of, canary, stable, Look()).verdict is Verdict.PASS, "it is few of all requests"
    judgement = judge_step(of, canary, stable, Look(), 0.0)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.message.startswith("lately: survival: ")


def test_the_first_step_is_judged_by_all_there_is():
    canary, stable = side("canary", requests=60), side("stable", requests=60)
    for seen in (3, 10, 40):
        told = judge_step(JUDGED, canary[:seen], stable[:seen], Look(), 0.0)
        assert told == judge(JUDGED, canary[:seen], stable[:seen], Look())


def test_however_many_steps_and_new_beginnings_an_equal_canary_has_one_chance_in_a_hundred():
    rates = [
        rules.error_rate(JUDGED, Look(stretch, step))
        for stretch in range(1, 20)
        for step in range(500)
    ]
    tested = sum(metric not in rules.UNTESTED for metric in JUDGED)
    assert 0.0099 < sum(rates) * tested <= 0.01 + 1e-12
    assert min(rates[:10]) > 0


def test_a_step_whose_first_interval_is_not_over_has_shown_nothing():
    judgement = judge_step(JUDGED, CANARY_BEFORE, STABLE_BEFORE, Look(step=1), SECONDS * BEFORE)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.message == "no interval of this step is over yet"
