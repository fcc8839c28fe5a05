"""A fault that anybody would see is seen within the first minutes, at 20 requests a second."""

import dataclasses

import pytest
from tests.unit.core.analysis.sides import EVERYTHING, SECONDS, side

from tidegate.core.analysis.evidence import Look, Metric, Verdict
from tidegate.core.analysis.judge import judge

TWO_MINUTES = round(120 / SECONDS)
CANARY, STABLE = 30, 570
"""Requests in an interval: a canary of 5 %."""

GROSS = {
    "a third of the requests fails": (Metric.SURVIVAL, {"failing": 0.33}),
    "every request fails": (Metric.SURVIVAL, {"failing": 1.0}),
    "engines restart again and again": (Metric.RESTARTS, {"restarts": TWO_MINUTES}),
    "first tokens take three times as long": (Metric.TTFT_P50, {"ttft": 0.75}),
    "tokens take three times as long": (Metric.TPOT_P50, {"tpot": 0.075}),
}
SEEDS = range(5)


def judged(canary, stable):
    return judge(EVERYTHING, canary, stable, Look())


@pytest.fixture(scope="module")
def stable():
    return side("stable", requests=STABLE, intervals=TWO_MINUTES, failing=0.005)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("metric", "fault"), GROSS.values(), ids=GROSS)
def test_what_anybody_would_see_fails_within_two_minutes(metric, fault, seed, stable):
    canary = side(seed, requests=CANARY, intervals=TWO_MINUTES, **fault)

    judgement = judged(canary, stable)

    failed = {one.metric for one in judgement.measurements if one.verdict is Verdict.FAIL}
    assert judgement.verdict is Verdict.FAIL, judgement.message
    assert metric in failed


@pytest.mark.parametrize("share", [0.33, 1.0])
def test_failures_that_come_as_evenly_as_a_clock_are_no_cluster(share):
    """A third of each interval exactly, and none of the baseline's: nothing is surer."""
    stable = side("stable", requests=CANARY, intervals=TWO_MINUTES)
    bad = CANARY * share
    canary = [
        dataclasses.replace(one, ended_well=CANARY - bad, ended_badly=bad)
        for one in side("canary", requests=CANARY, intervals=TWO_MINUTES)
    ]

    assert judged(canary, stable).verdict is Verdict.FAIL


@pytest.mark.parametrize(("metric", "fault"), GROSS.values(), ids=GROSS)
def test_even_so_two_intervals_decide_nothing(metric, fault, stable):
    """What lasts a minute may be a pod that ended, or a queue."""
    canary = side("canary", requests=20 * CANARY, intervals=2, **fault)

    assert judged(canary, stable[:2]).verdict is not Verdict.FAIL


@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_of_trouble_among_ten_good_ones_is_no_gross_fault(seed):
    stable = side("stable", requests=60, intervals=20)
    canary = side(seed, requests=60, intervals=20)
    troubled = side(seed, requests=60, intervals=2, failing=1.0, ttft=2.0)

    assert judged([*troubled, *canary[2:]], stable).verdict is not Verdict.FAIL


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_mildly_worse_is_not_failed_in_the_first_two_minutes(seed, stable):
    canary = side(seed, requests=CANARY, intervals=TWO_MINUTES, failing=0.01, ttft=0.275)

    assert judged(canary, stable).verdict is Verdict.INCONCLUSIVE
