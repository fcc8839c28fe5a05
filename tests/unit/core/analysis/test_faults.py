"""What others' analyses fell over: each fault is a case here."""

import dataclasses

import pytest
from tests.unit.core.analysis.sides import EVERYTHING, measured, side, verdict_of

from tidegate.core.analysis.evidence import Evidence, Histogram, Look, Metric, Verdict
from tidegate.core.analysis.judge import judge

UNKNOWN = [Evidence(at=30.0 * index, seconds=30.0) for index in range(40)]
IDLE = {
    "ended_well": 0.0,
    "ended_badly": 0.0,
    "ttft": Histogram((1.0,), (0.0, 0.0)),
    "tpot": Histogram((1.0,), (0.0, 0.0)),
    "preemptions": 0.0,
    "prefix_hit_tokens": 0.0,
    "prefix_query_tokens": 0.0,
}
SILENT = (Metric.PREFIX_HIT_RATE,)


@pytest.fixture(scope="module")
def stable():
    return side("stable", requests=60)


def test_no_data_is_inconclusive_and_not_zero(stable):
    judgement = judge(EVERYTHING, UNKNOWN, stable, Look())

    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert {
        one.metric: (one.verdict, one.message)
        for one in judgement.measurements
        if one.metric not in SILENT
    } == {
        metric: (Verdict.INCONCLUSIVE, "no data of the canary")
        for metric in EVERYTHING
        if metric not in SILENT
    }


def test_no_data_of_the_baseline_is_inconclusive():
    told = measured(Metric.TTFT_P95, side("canary"), UNKNOWN)

    assert (told.verdict, told.message) == (Verdict.INCONCLUSIVE, "no data of the baseline")


@pytest.mark.parametrize(
    "canary", [[], UNKNOWN, side("idle", requests=0)], ids=["none", "?", "idle"]
)
@pytest.mark.parametrize(
    "baseline", [[], UNKNOWN, side("idle", requests=0)], ids=["none", "?", "idle"]
)
def test_without_traffic_a_canary_neither_goes_on_nor_back(canary, baseline):
    assert judge(EVERYTHING, canary, baseline, Look()).verdict is Verdict.INCONCLUSIVE


def test_data_that_comes_back_needs_nobody(stable):
    back = [*UNKNOWN[:10], *side("canary", requests=60)[10:]]

    assert judge(EVERYTHING, back, stable, Look()).verdict is Verdict.PASS


def test_a_query_that_was_not_understood_is_an_error_with_its_text(stable):
    canary = side("canary", requests=60)
    canary[-1] = dataclasses.replace(canary[-1], ttft=None, faults={Metric.TTFT_P95: "2 series"})

    judgement = judge(EVERYTHING, canary, stable, Look())

    assert (judgement.verdict, judgement.message) == (Verdict.ERROR, "ttftP95: canary: 2 series")


def test_an_error_is_over_once_the_query_is_answered(stable):
    canary = side("canary", requests=60)
    canary[3] = dataclasses.replace(canary[3], ttft=None, faults={Metric.TTFT_P95: "2 series"})

    assert judge(EVERYTHING, canary, stable, Look()).verdict is Verdict.PASS


@pytest.mark.parametrize("requests", [1, 2, 5])
def test_one_error_at_low_traffic_is_no_verdict(requests):
    stable = side("stable", requests=20 * requests)
    canary = side("canary", requests=requests)
    canary[0] = dataclasses.replace(
        canary[0], ended_well=canary[0].ended_well - 1.0, ended_badly=1.0
    )

    assert verdict_of(Metric.SURVIVAL, canary, stable) is not Verdict.FAIL


def test_one_burst_of_failures_is_no_verdict(stable):
    canary = side("canary", requests=60)
    canary[7] = dataclasses.replace(canary[7], ended_well=0.0, ended_badly=60.0)

    assert verdict_of(Metric.SURVIVAL, canary, stable) is not Verdict.FAIL


def test_one_restart_is_no_verdict(stable):
    assert verdict_of(Metric.RESTARTS, side("canary", restarts=1), stable) is not Verdict.FAIL


def test_a_canary_that_falls_over_before_it_serves_fails(stable):
    canary = side("canary", requests=0, restarts=6)

    assert verdict_of(Metric.RESTARTS, canary, stable) is Verdict.FAIL


def test_a_canary_that_fails_everything_fails_within_minutes(stable):
    canary = side("canary", requests=20, intervals=5, failing=1.0)

    assert judge(EVERYTHING, canary, stable, Look()).verdict is Verdict.FAIL


LEFT_OUT = (3, 1, 1, 0, 1, 0, 1)
"""Requests that a gate asks of a pod that fails them all, by interval: fewer and fewer."""


@pytest.mark.parametrize("asked", [LEFT_OUT, LEFT_OUT[1:]], ids=["from its start", "later"])
def test_a_canary_that_fails_all_that_gates_still_ask_of_it_fails(stable, asked):
    """It never gets `minSamples`: a gate leaves out what fails."""
    canary = failing(asked)

    judgement = judge(EVERYTHING, canary, stable, Look())

    assert sum(one.requests for one in canary) < EVERYTHING[Metric.SURVIVAL].min_samples
    assert judgement.verdict is Verdict.FAIL
    assert judgement.message.startswith("survival: 0.00% of ")


@pytest.mark.parametrize("asked", [(1,), (2, 1), (10, 0, 10)])
def test_failures_of_a_moment_fail_nobody_that_has_few_requests(stable, asked):
    told = measured(Metric.SURVIVAL, failing(asked), stable)

    assert told.verdict is Verdict.INCONCLUSIVE
    assert "of at least 50" in told.message


def failing(asked):
    """A canary that fails all that is asked of it, so much in each interval."""
    idle = side("canary", requests=0, intervals=len(asked))
    return [
        dataclasses.replace(one, ended_badly=float(count))
        for one, count in zip(idle, asked, strict=True)
    ]


UNSERVED = {
    "refuses half": (Metric.REFUSALS, {"refused": 0.5}),
    "refuses all": (Metric.REFUSALS, {"refused": 1.0}),
    "refuses a tenth": (Metric.REFUSALS, {"refused": 0.1}),
    "hangs until half of the clients leave": (Metric.ABANDONMENTS, {"abandoned": 0.5}),
    "hangs until all leave": (Metric.ABANDONMENTS, {"abandoned": 1.0}),
}


@pytest.mark.parametrize(("metric", "fault"), UNSERVED.values(), ids=UNSERVED)
@pytest.mark.parametrize("usual", [0.0, 0.03])
def test_a_canary_that_refuses_or_lets_clients_leave_more_often_is_taken_back(metric, fault, usual):
    """The old revision has the same clients: what they do wrong, they do there, too."""
    stable = side("stable", requests=200, intervals=20, refused=usual, abandoned=usual)
    canary = side("canary", intervals=20, **fault)

    judgement = judge(EVERYTHING, canary, stable, Look())

    failed = [one for one in judgement.measurements if one.verdict is Verdict.FAIL]
    assert [one.metric for one in failed] == [metric]
    assert judgement.verdict is Verdict.FAIL


@pytest.mark.parametrize("seed", range(5))
def test_clients_that_are_refused_or_leave_on_both_sides_alike_keep_nobody_back(seed):
    usual = {"refused": 0.1, "abandoned": 0.05}
    stable = side(f"stable {seed}", requests=200, **usual)
    canary = side(seed, requests=60, **usual)

    judgement = judge(EVERYTHING, canary, stable, Look())

    verdicts = {one.metric: one.verdict for one in judgement.measurements}
    assert verdicts[Metric.REFUSALS] is verdicts[Metric.ABANDONMENTS] is Verdict.PASS
    assert verdicts[Metric.SURVIVAL] is Verdict.PASS


def test_what_only_refuses_is_no_silence(stable):
    """Requests come: it is not that nobody asks."""
    canary = side("canary", requests=60, refused=1.0)

    assert {one.requests for one in canary} == {60.0}


def test_fewer_than_the_least_samples_is_no_evidence_however_bad(stable):
    canary = side("canary", requests=2, intervals=20, ttft=9.0)

    told = measured(Metric.TTFT_P95, canary, stable)

    assert (told.verdict, told.message) == (
        Verdict.INCONCLUSIVE,
        "40 requests, of at least 200 that a verdict needs on both sides",
    )


@pytest.mark.parametrize("metric", [Metric.TTFT_P95, Metric.SURVIVAL, Metric.PREEMPTIONS])
def test_what_is_no_evidence_yet_is_shown_with_the_samples_of_both_sides(stable, metric):
    told = measured(metric, side("canary", requests=2, intervals=20), stable)

    assert told.verdict is Verdict.INCONCLUSIVE
    assert None not in (told.canary, told.baseline)
    assert told.samples == 40 < told.baseline_samples


def test_a_canary_does_not_go_on_after_its_traffic_stopped(stable):
    canary = side("canary", requests=60)
    stopped = [
        dataclasses.replace(one, **IDLE) if index >= 36 else one for index, one in enumerate(canary)
    ]

    judgement = judge(EVERYTHING, stopped, stable, Look())

    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.message == "no request came to the canary for 120 s"


def test_where_no_answer_is_streamed_there_is_no_time_between_tokens():
    none = Histogram((1.0,), (0.0, 0.0))
    canary, stable = (side(name, requests=20, tpot=0.02) for name in ("canary", "stable"))
    quiet = [[dataclasses.replace(one, tpot=none) for one in of] for of in (canary, stable)]

    assert verdict_of(Metric.TPOT_P95, *quiet) is Verdict.PASS
    assert verdict_of(Metric.TPOT_P95, quiet[0], stable) is Verdict.INCONCLUSIVE


def test_load_that_drifts_hits_both_sides_and_nobody_fails():
    """The canary gets its share in the slow half: the whole is slower, each interval is not."""
    canary = side("c1", requests=3, intervals=20) + later(side("c2", 60, intervals=20, ttft=0.5))
    stable = side("s1", requests=60, intervals=20) + later(side("s2", 60, intervals=20, ttft=0.5))

    told = measured(Metric.TTFT_P50, canary, stable)

    assert told.canary > 1.2 * told.baseline
    assert told.verdict is not Verdict.FAIL


def later(evidences):
    return [dataclasses.replace(one, at=one.at + 600.0) for one in evidences]
