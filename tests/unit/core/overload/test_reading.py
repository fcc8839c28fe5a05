"""What is known of a pool, and why not: no data is not zero."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.overload import reading
from tidegate.core.overload.samples import MOST_AHEAD_SECONDS
from tidegate.core.overload.signal import Sample, Signal, Unknown

from .answers import NOW, PLACE, SCRAPE_SECONDS, figures, kv, queued_tokens, seen, waiting_tokens

FULLEST = ("unified", Signal.KV_USAGE)
MEAN = ("unified", Signal.KV_USAGE_MEAN)
BACKLOG = ("unified", Signal.PREFILL_BACKLOG)
UNREACHABLE = Unknown(Reason.METRICS_UNREACHABLE, "Prometheus gave no answer within 5 s")


def known(place=PLACE, **answers):
    return reading.signals(answers, NOW, SCRAPE_SECONDS)[place]


def test_usage_is_that_of_the_fullest_pod_and_as_old_as_the_oldest_sample():
    told = known(kv=(*kv(0.5, "p1", at=NOW - 9), *kv(0.9, "p2", at=NOW - 2)))

    assert told[FULLEST] == Sample(0.9, NOW - 9)
    assert told[MEAN] == Sample(0.7, NOW - 9)


def test_engines_of_one_pod_are_told_apart():
    assert known(kv=(*kv(0.5, engine="0"), *kv(0.8, engine="1")))[FULLEST].value == 0.8


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (seen(0.9, at=NOW - 12), Sample(0.9, NOW - 12)),
        (seen(0.9, at=NOW - 1), Sample(0.9, NOW - 5)),
        (seen(0.3, at=NOW - 1), Sample(0.5, NOW - 5)),
        (seen(0.9, at=NOW - 46), Sample(0.5, NOW - 5)),
        (seen(math.nan), Sample(0.5, NOW - 5)),
        (seen(1.4), Sample(0.5, NOW - 5)),
        (seen(0.9, pool="prefill"), Sample(0.5, NOW - 5)),
    ],
    ids=["fuller", "newer", "emptier", "old", "no number", "no share", "of another pool"],
)
@pytest.mark.parametrize("engine", ["0", ""])
def test_what_gates_saw_between_two_scrapes_counts_where_it_is_more(engine, seen, expected):
    told = known(kv=(*kv(0.5, engine=engine), *seen))

    assert told[FULLEST] == expected
    assert told[MEAN] == Sample(0.5, NOW - 5), "and the mean is of the engines' own samples"


def test_an_engine_that_is_not_scraped_is_unknown_whatever_gates_saw():
    assert isinstance(known(kv=(*kv(0.5, at=NOW - 50), *seen(0.6)))[FULLEST], Unknown)
    assert known(kv=seen(0.6))[FULLEST].reason is Reason.METRICS_MISSING


@pytest.mark.parametrize(
    ("rows", "reason", "says"),
    [
        (kv(math.nan), Reason.METRICS_NOT_A_NUMBER, "nan"),
        (kv(math.inf), Reason.METRICS_NOT_A_NUMBER, "inf"),
        (kv(87), Reason.METRICS_NOT_A_NUMBER, "is 87, not 0 to 1"),
        (kv(-0.1), Reason.METRICS_NOT_A_NUMBER, "not 0 to 1"),
        (kv(0.5, copies=2), Reason.METRICS_AMBIGUOUS, "two series"),
        ((*kv(0.5), *kv(0.6)), Reason.METRICS_AMBIGUOUS, "two series"),
        (kv(0.5, at=NOW - 46), Reason.METRICS_STALE, "46 s old, over 45 s"),
        (kv(0.5, at=NOW - 45.3), Reason.METRICS_STALE, "45.3 s old, over 45 s"),
        (kv(0.5, at=NOW - 45.02), Reason.METRICS_STALE, "45.1 s old, over 45 s"),
        (kv(0.5, at=NOW + 60), Reason.METRICS_STALE, "60 s in the future"),
        (kv(0.5, at=None), Reason.METRICS_STALE, "no time"),
        (kv(0.5, at=math.nan), Reason.METRICS_STALE, "no time"),
        (kv(None), Reason.METRICS_MISSING, "no series"),
    ],
)
def test_a_figure_that_is_not_to_be_gone_by_is_unknown_and_says_why(rows, reason, says):
    told = known(kv=rows)[FULLEST]

    assert isinstance(told, Unknown)
    assert told.reason is reason
    assert says in told.message
    assert "p1" in told.message


@pytest.mark.parametrize("age", [0, 45, -4])
def test_a_sample_counts_for_three_scrapes_and_clocks_may_differ_a_little(age):
    assert known(kv=kv(0.5, at=NOW - age))[FULLEST] == Sample(0.5, NOW - age)


@pytest.mark.parametrize(("at", "is_known"), [(12, True), (16, True), (18, False)])
def test_a_sample_that_came_while_a_slow_answer_was_made_is_not_from_the_future(at, is_known):
    answers = {"kv": kv(0.5, at=NOW + at)}

    told = reading.signals(answers, NOW, SCRAPE_SECONDS, took_seconds=12)[PLACE][FULLEST]

    assert isinstance(told, Sample) == is_known
    assert is_known or "6 s in the future" in told.message


@pytest.mark.parametrize("bad", [kv(math.nan, "p2"), kv(0.1, "p2", at=NOW - 300)])
def test_one_pod_that_is_unknown_makes_its_pool_unknown_for_it_may_be_the_fullest(bad):
    assert isinstance(known(kv=(*kv(0.5), *bad))[FULLEST], Unknown)


def test_a_pool_of_which_only_gates_tell_has_unknown_usage_not_none():
    told = known(kv=(), backlog=(*waiting_tokens(0), *queued_tokens()))

    assert told[FULLEST].reason is Reason.METRICS_MISSING
    assert told[BACKLOG] == Sample(0.0, NOW - 5)


def test_a_question_that_failed_leaves_only_its_own_signals_unknown():
    told = known(kv=UNREACHABLE, backlog=(*waiting_tokens(500), *queued_tokens()))

    assert told[FULLEST] == UNREACHABLE
    assert told[BACKLOG].value == 0.5


def test_what_is_wrong_with_one_deployment_is_not_seen_at_another():
    other = ("default", "other")
    answers = {"kv": (*kv(math.nan), *kv(0.4, place=other))}

    told = reading.signals(answers, NOW, SCRAPE_SECONDS)

    assert isinstance(told[PLACE][FULLEST], Unknown)
    assert told[other][FULLEST] == Sample(0.4, NOW - 5)


def test_a_pair_has_the_signals_of_each_phase():
    told = known(
        kv=(*kv(0.3, pool="prefill"), *kv(0.6, "d1", pool="decode")),
        backlog=(
            *waiting_tokens(100, pool="prefill"),
            *waiting_tokens(7, "d1", pool="decode"),
            *queued_tokens(pool="prefill"),
        ),
        ttft=figures(value=0.4, samples=100, at=NOW),
        tpot=figures(value=0.02, samples=100, at=NOW),
    )

    assert set(told) == {
        ("prefill", Signal.PREFILL_BACKLOG),
        ("prefill", Signal.TTFT),
        ("prefill", Signal.PREFIX_HIT_RATE),
        ("decode", Signal.KV_USAGE),
        ("decode", Signal.KV_USAGE_MEAN),
        ("decode", Signal.PREEMPTIONS),
        ("decode", Signal.TPOT),
    }
    assert told["decode", Signal.KV_USAGE].value == 0.6
    assert told["prefill", Signal.TTFT].value == 0.4


def test_a_pool_that_tidegate_does_not_know_is_left_out():
    told = known(kv=(*kv(0.5), *kv(0.9, pool="draft")))

    assert told[FULLEST].value == 0.5


@pytest.mark.parametrize(
    ("samples", "is_known"), [(19, False), (20, True), (None, False), (math.nan, False)]
)
def test_a_quantile_needs_twenty_answers(samples, is_known):
    told = known(kv=kv(0.5), ttft=figures(value=0.4, samples=samples, at=NOW))

    assert isinstance(told["unified", Signal.TTFT], Sample) is is_known


@pytest.mark.parametrize(
    ("asked", "had", "share"), [(100, 50, 0.5), (100, 100.0001, 1.0), (0, 0, None), (9, None, None)]
)
def test_the_hit_rate_is_of_prompt_tokens_and_unknown_where_none_came(asked, had, share):
    told = known(prefix=figures(pool="unified", asked=asked, had=had, at=NOW))
    found = told["unified", Signal.PREFIX_HIT_RATE]

    assert (found.value if isinstance(found, Sample) else None) == share


class TestPrefillBacklog:
    def test_it_is_the_pools_tokens_over_the_pools_speed(self):
        told = known(
            backlog=(
                *waiting_tokens(900, "p1", speed=200),
                *waiting_tokens(100, "p2", speed=300),
                *queued_tokens(),
            )
        )

        assert told[BACKLOG] == Sample(2.0, NOW - 5)

    def test_what_waits_at_the_gates_counts_as_what_waits_on_the_pods_does(self):
        told = known(
            backlog=(
                *waiting_tokens(900, "p1", speed=200),
                *waiting_tokens(100, "p2", speed=300),
                *queued_tokens(1500, at=NOW - 7),
            )
        )

        assert told[BACKLOG] == Sample(5.0, NOW - 7)

    @pytest.mark.parametrize(
        ("queue", "reason"),
        [
            ((), Reason.METRICS_MISSING),
            (queued_tokens(math.nan), Reason.METRICS_NOT_A_NUMBER),
            (queued_tokens(-1), Reason.METRICS_NOT_A_NUMBER),
            (queued_tokens(at=NOW - 46), Reason.METRICS_STALE),
            (queued_tokens(pool="prefill"), Reason.METRICS_MISSING),
        ],
    )
    def test_a_queue_that_is_not_known_is_not_an_empty_one(self, queue, reason):
        told = known(backlog=(*waiting_tokens(0), *queue))[BACKLOG]

        assert told.reason is reason
        assert "wait at the gates for pool unified" in told.message

    def test_a_pod_of_unknown_speed_is_as_fast_as_the_others(self):
        told = known(
            backlog=(
                *waiting_tokens(900, "p1", speed=500),
                *waiting_tokens(100, "p2", speed=None),
                *queued_tokens(),
            )
        )

        assert told[BACKLOG].value == 1.0

    @pytest.mark.parametrize("speed", [None, 0, math.nan, math.inf])
    def test_without_a_speed_what_waits_is_unknown_and_nothing_is_nothing(self, speed):
        some = known(backlog=(*waiting_tokens(900, speed=speed), *queued_tokens()))
        none = known(backlog=(*waiting_tokens(0, speed=speed), *queued_tokens()))

        assert some[BACKLOG].reason is Reason.METRICS_MISSING
        assert none[BACKLOG].value == 0.0

    def test_it_is_unknown_while_a_gate_is_not_scraped(self):
        gates = figures(gates=2, told=1)
        told = known(backlog=(*waiting_tokens(900), *gates))

        assert told[BACKLOG] == Unknown(
            Reason.METRICS_MISSING, "prefill backlog of pool unified: 1 of 2 gates are scraped"
        )

    def test_more_gates_than_there_are_is_an_update_under_way(self):
        assert (
            known(backlog=(*waiting_tokens(900), *queued_tokens(), *figures(gates=2, told=3)))[
                BACKLOG
            ].value
            == 0.9
        )

    def test_without_gates_the_engines_waiting_requests_tell(self):
        told = known(backlog=figures(pool="unified", waiting=6, waiting_at=NOW - 3, prefill=0.5))

        assert told[BACKLOG] == Sample(3.0, NOW - 3)

    @pytest.mark.parametrize(("waiting", "value"), [(0, 0.0), (3, None)])
    def test_requests_of_unknown_length_are_unknown_unless_there_are_none(self, waiting, value):
        told = known(backlog=figures(pool="unified", waiting=waiting, waiting_at=NOW))[BACKLOG]

        assert (told.value if isinstance(told, Sample) else None) == value


FIGURE = st.none() | st.floats() | st.sampled_from([0.0, 0.5, NOW, NOW - 10])


@given(
    value=FIGURE,
    at=FIGURE,
    copies=st.sampled_from([None, 1, 2, math.nan]),
    tokens=FIGURE,
    speed=FIGURE,
    gates=FIGURE,
    samples=FIGURE,
)
def test_whatever_is_told_a_known_value_is_a_number_with_a_recent_time(
    value, at, copies, tokens, speed, gates, samples
):
    told = known(
        kv=(*kv(value, at=at, copies=copies), *kv(0.1, "p2"), *seen(speed, at=gates)),
        backlog=(
            *waiting_tokens(tokens, speed=speed, at=at, copies=copies),
            *figures(gates=gates, told=1),
            *figures(pool="unified", waiting=value, waiting_at=at, prefill=speed),
            *queued_tokens(gates, at=at),
        ),
        preemptions=figures(pool="unified", value=value, at=at),
        prefix=figures(pool="unified", asked=value, had=tokens, at=at),
        ttft=figures(value=value, samples=samples, at=at),
    )

    for found in told.values():
        if isinstance(found, Sample):
            assert 0 <= found.value < math.inf
            assert -MOST_AHEAD_SECONDS <= NOW - found.at <= 3 * SCRAPE_SECONDS
