"""What Prometheus answers becomes evidence; what it does not say stays unknown."""

import pytest

from tidegate.core.analysis.evidence import Evidence, Metric
from tidegate.core.analysis.rules import DEFAULTS
from tidegate.core.canary import answers, bounds, questions
from tidegate.core.canary.questions import Window

WINDOW = Window(first_end=130.0, last_end=190.0, seconds=30)


def series(values, **labels):
    return {"metric": labels, "values": [[at, str(value)] for at, value in values.items()]}


def read(**families):
    told = {family: answers.parse(result) for family, result in families.items()}
    return answers.evidence(told, WINDOW, "new")


def test_outcomes_are_told_apart_and_what_no_engine_did_is_no_failure():
    found = read(
        requests=[
            series({130: 9, 160: 8}, revision="new", outcome="finished"),
            series({160: 2}, revision="new", outcome="engine-failed"),
            series({160: 1}, revision="new", outcome="deadline"),
            series({160: 5}, revision="new", outcome="client-gone"),
            series({160: 5}, revision="new", outcome="gate-gone"),
            series({160: 5}, revision="new", outcome="total-deadline"),
            series({130: 2, 160: 4}, revision="new", outcome="engine-refused"),
            series({130: 0, 160: 6}, revision="new", outcome="abandoned"),
            series({130: 70, 160: 70, 190: 70}, revision="old", outcome="finished"),
        ]
    )
    assert [one.at for one in found] == [100.0, 130.0, 160.0]
    assert [(one.ended_well, one.ended_badly) for one in found] == [(9, 0), (8, 3), (None, None)]
    assert [(one.refused, one.abandoned) for one in found] == [(2, 0), (4, 6), (None, None)]
    assert [one.requests for one in found] == [11, 21, None], "what is refused has come, too"


def test_where_gates_do_not_tell_who_left_before_the_first_byte_it_is_not_known():
    """A version before counts them with those that left later."""
    outcomes = {"finished": 90, "engine-refused": 3, "client-gone": 7}
    one = read(
        requests=[series({130: n}, revision="new", outcome=name) for name, n in outcomes.items()]
    )[0]
    assert (one.ended_well, one.refused, one.abandoned, one.requests) == (90, 3, None, 93)

    judged = bounds.judged(DEFAULTS, questions.METRICS, [one], [one])
    assert Metric.ABANDONMENTS not in judged
    assert {Metric.SURVIVAL, Metric.REFUSALS} <= judged.keys()


def test_cumulated_buckets_become_counts_though_extrapolation_bends_them():
    buckets = [("0.1", 4.0), ("0.2", 3.9), ("+Inf", 10.0)]
    found = read(ttft=[series({130: count}, revision="new", le=le) for le, count in buckets])
    assert found[0].ttft.bounds == (0.1, 0.2)
    assert found[0].ttft.counts == pytest.approx((4.0, 0.0, 6.0))
    assert found[1].ttft is None


def test_without_its_last_bucket_a_histogram_is_none():
    assert read(tpot=[series({130: 1}, revision="new", le="0.1")])[0].tpot is None


def test_nothing_at_all_is_no_zero():
    found = read(requests=[], ttft=[], preemptions=[], prefix=[])
    assert {(one.requests, one.preemptions, one.ttft) for one in found} == {(None, None, None)}


def test_what_the_stable_pods_did_is_no_evidence_of_the_canary():
    """A selector that misses the canary finds the others, and they are well."""
    of_stable = {
        "requests": [series({130: 90}, revision="old", outcome="finished")],
        "ttft": [series({130: 90}, revision="old", le=le) for le in ("0.1", "+Inf")],
        "preemptions": [series({130: 0}, revision="old")],
        "memory": [series({130: 7}, revision="old")],
    }
    found = read(**of_stable, prefix=[series({130: 5}, label="hits")])[0]
    assert found == Evidence(at=100.0, seconds=30.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_what_is_no_number_is_not_known(value):
    found = read(preemptions=[series({130: value, 160: 2}, revision="new")])
    assert [one.preemptions for one in found] == [None, 2.0, None]


@pytest.mark.parametrize(
    "result",
    [None, {}, "text", [1], [{}], [{"metric": {}, "values": [[1]]}],
     [{"metric": {}, "values": [["x", "y"]]}]],
)  # fmt: skip
def test_another_shape_is_refused(result):
    with pytest.raises(answers.Unreadable):
        answers.parse(result)


def test_intervals_begin_with_the_evidence_and_only_whole_ones_count():
    assert questions.windows(100.0, 120.0, 30) == ()
    assert questions.windows(100.0, 195.0, 30) == (Window(130.0, 190.0, 30),)


@pytest.mark.parametrize("hours", [1, 1.5, 4, 16, 100])
def test_however_long_a_rollout_takes_what_happens_now_is_seen_within_a_minute(hours):
    begun, now = 1_000.0, 1_000.0 + hours * 3600 + 17
    found = questions.windows(begun, now, 30)
    assert now - found[-1].last_end < 30 == found[-1].seconds
    ends = [end for one in found for end in (one.first_end - one.seconds, one.last_end)]
    assert ends[0] == begun
    assert ends[1:-1:2] == ends[2::2], "they follow one another without a gap"
    count = sum((one.last_end - one.first_end) / one.seconds + 1 for one in found)
    assert count <= 400, "a judgement costs milliseconds after days as well"


def test_intervals_are_as_long_as_wished_but_hold_enough_scrapes():
    assert questions.least_seconds(30.0, 5.0) == 30
    assert questions.least_seconds(5.0, 1.0) == 5, "a trial with steps of a minute"
    assert questions.least_seconds(30.0, 15.0) == 60, "four scrapes"


def test_the_questions_name_one_deployment_and_two_revisions():
    for question in questions.of("chat", "qwen", ("new", "old"), 30):
        assert 'namespace="chat",llmdeployment="qwen",revision=~"new|old"' in question.promql
        assert "[30s]" in question.promql


@pytest.mark.parametrize(
    ("family", "twice", "metrics"),
    [
        (
            "requests",
            {"outcome": "finished"},
            {Metric.SURVIVAL, Metric.REFUSALS, Metric.ABANDONMENTS},
        ),
        ("ttft", {"le": "0.1"}, {Metric.TTFT_P50, Metric.TTFT_P95}),
        ("preemptions", {}, {Metric.PREEMPTIONS}),
    ],
)
def test_of_two_series_none_is_chosen_and_the_metrics_of_their_family_say_so(
    family, twice, metrics
):
    one, other = (series({130: 5}, revision="new", **twice, job=job) for job in ("a", "b"))
    found = read(**{family: [one, other], "memory": [series({130: 7}, revision="new")]})[0]
    assert found.faults.keys() == metrics
    assert all("2 series where one was expected" in text for text in found.faults.values())
    assert (found.requests, found.ttft, found.preemptions) == (None, None, None)
    assert found.memory_bytes == 7


def test_two_series_of_the_other_revision_are_its_own_fault():
    twice = [series({130: 5}, revision="old", job=job) for job in ("a", "b")]
    assert read(preemptions=[*twice, series({130: 1}, revision="new")])[0].faults == {}
