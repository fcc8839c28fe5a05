"""A judgement as a release engineer expects it."""

import dataclasses

import pytest
from tests.unit.core.analysis.sides import EVERYTHING, measured, side, verdict_of

from tidegate.core.analysis.evidence import Bound, Histogram, Look, Metric, Rule, Verdict
from tidegate.core.analysis.judge import judge

WORSE = {
    Metric.TTFT_P50: {"ttft": 0.35},
    Metric.TTFT_P95: {"ttft": 0.4},
    Metric.TPOT_P50: {"tpot": 0.03},
    Metric.TPOT_P95: {"tpot": 0.032},
    Metric.SURVIVAL: {"failing": 0.06},
    Metric.RESTARTS: {"restarts": 5},
    Metric.PREEMPTIONS: {"preempted": 0.1},
    Metric.KV_DRIFT: {"fixed": {"kv_drift_percent": -14.0}},
    Metric.MEMORY_GROWTH: {"growth_percent_per_hour": 20.0},
}


@pytest.fixture(scope="module")
def stable():
    return side("stable", requests=60)


@pytest.fixture(scope="module")
def equal():
    return side("equal", requests=60)


def test_an_equal_canary_with_enough_traffic_passes_in_every_metric(stable, equal):
    judgement = judge(EVERYTHING, equal, stable, Look())

    assert {one.metric: one.verdict for one in judgement.measurements} == dict.fromkeys(
        EVERYTHING, Verdict.PASS
    )
    assert judgement.verdict is Verdict.PASS


@pytest.mark.parametrize(("metric", "fault"), WORSE.items(), ids=str)
def test_a_canary_that_is_worse_in_one_metric_fails_by_it(metric, fault, stable):
    judgement = judge(EVERYTHING, side("canary", requests=60, **fault), stable, Look())

    failed = {one.metric for one in judgement.measurements if one.verdict is Verdict.FAIL}
    assert judgement.verdict is Verdict.FAIL
    assert metric in failed
    assert {one.value[:4] for one in failed} == {metric.value[:4]}


@pytest.mark.parametrize(("metric", "fault"), WORSE.items(), ids=str)
def test_a_canary_that_is_better_where_its_baseline_is_bad_passes(metric, fault, equal):
    judgement = judge(EVERYTHING, equal, side("stable", requests=60, **fault), Look())

    assert judgement.verdict is Verdict.PASS, judgement.message


def test_the_message_tells_metric_numbers_and_chance(stable):
    canary = side("canary", requests=60, ttft=0.4)

    judgement = judge({Metric.TTFT_P95: EVERYTHING[Metric.TTFT_P95]}, canary, stable, Look())

    assert judgement.message.startswith("ttftP95: TTFT p95 is ")
    assert "against" in judgement.message
    assert "in 2,400 requests; an equal canary would look so with a chance of " in judgement.message


def test_the_same_evidence_gives_the_same_judgement(stable, equal):
    assert judge(EVERYTHING, equal, stable, Look()) == judge(EVERYTHING, equal, stable, Look())


def test_the_order_of_intervals_does_not_matter(stable, equal):
    turned = judge(EVERYTHING, equal[::-1], stable[::-1], Look())

    assert turned.measurements == judge(EVERYTHING, equal, stable, Look()).measurements


def test_intervals_of_one_side_only_say_nothing(stable, equal):
    later = [dataclasses.replace(one, at=one.at + 1e6) for one in side("x", ttft=9.0, requests=60)]

    assert judge(EVERYTHING, equal, [*stable, *later], Look()) == judge(
        EVERYTHING, equal, stable, Look()
    )


def test_only_what_is_asked_for_is_judged(stable):
    rules = {Metric.SURVIVAL: EVERYTHING[Metric.SURVIVAL]}

    judgement = judge(rules, side("canary", requests=60, ttft=9.0), stable, Look())

    assert [one.metric for one in judgement.measurements] == [Metric.SURVIVAL]
    assert judgement.verdict is Verdict.PASS


def test_nothing_to_judge_is_no_pass(stable, equal):
    assert judge({}, equal, stable, Look()).verdict is Verdict.INCONCLUSIVE


def test_an_analysis_that_began_anew_needs_stronger_evidence(stable):
    canary = side("canary", requests=60, intervals=12, failing=0.05)
    needs = [
        judge({Metric.SURVIVAL: EVERYTHING[Metric.SURVIVAL]}, canary, stable, Look(stretch=number))
        for number in (1, 9)
    ]

    assert [one.verdict for one in needs] == [Verdict.FAIL, Verdict.INCONCLUSIVE]


class TestAbsoluteBounds:
    RULE = Rule(Bound(absolute=0.9, margin=0.5), min_samples=100)

    def test_a_canary_that_breaks_the_slo_fails_within_its_margin(self, stable):
        # p95 is 0.67 s at 0.25 s in the middle, 0.94 s at 0.35 s.
        canary = side("canary", requests=60, ttft=0.35)

        assert verdict_of(Metric.TTFT_P95, canary, stable, self.RULE) is Verdict.FAIL

    def test_a_canary_within_slo_and_margin_passes(self, equal, stable):
        assert verdict_of(Metric.TTFT_P95, equal, stable, self.RULE) is Verdict.PASS

    def test_an_slo_that_both_break_does_not_stop_a_canary(self):
        canary, stable = (side(name, requests=60, ttft=0.6) for name in ("canary", "stable"))

        assert verdict_of(Metric.TTFT_P95, canary, stable, self.RULE) is Verdict.PASS

    def test_survival_must_be_within_its_bound_by_its_lower_limit(self, stable):
        few = [one for one in side("canary", requests=60) if one.at < 120]
        rule = Rule(Bound(absolute=0.99, margin=0.05), min_samples=50)

        assert verdict_of(Metric.SURVIVAL, few, stable, rule) is Verdict.INCONCLUSIVE
        assert verdict_of(Metric.SURVIVAL, side("c", requests=60), stable, rule) is Verdict.PASS


def test_prefix_hits_are_told_and_stop_nobody(stable):
    canary = side("canary", fixed={"prefix_hit_tokens": 0.0})

    told = measured(Metric.PREFIX_HIT_RATE, canary, stable)

    assert (told.verdict, told.canary, told.baseline) == (Verdict.PASS, 0.0, 0.3)


def test_more_kv_than_planned_is_no_fault(stable):
    canary = side("canary", fixed={"kv_drift_percent": 30.0})

    assert verdict_of(Metric.KV_DRIFT, canary, stable) is Verdict.PASS


def test_a_cache_that_fills_and_stops_is_no_leak(stable):
    filling = [
        dataclasses.replace(one, memory_bytes=one.memory_bytes * (1 + 0.04 * min(1, index / 15)))
        for index, one in enumerate(side("canary", requests=60))
    ]

    assert verdict_of(Metric.MEMORY_GROWTH, filling, stable) is not Verdict.FAIL


def test_restarts_are_told_with_their_causes(stable):
    told = measured(Metric.RESTARTS, side("canary", restarts=5), stable)

    assert "(5 by OOM)" in told.message


def test_a_histogram_that_is_none_is_refused():
    with pytest.raises(ValueError, match="2 counts for 2 bounds"):
        Histogram((1.0, 2.0), (1.0, 1.0))
    with pytest.raises(ValueError, match="numbers from 0 up"):
        Histogram((1.0,), (1.0, float("nan")))
