"""One scrape that is missed is no outage: the last sample counts until it is too old."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.overload.last_known import bridged
from tidegate.core.overload.signal import Sample, Signal, Unknown

from .loops import BACKLOG, GONE, KV, START, TICK, Loop, spec

AGE_LIMIT_SECONDS = 3 * TICK.scrape_interval_seconds
TTFT = ("prefill", Signal.TTFT)
NONE = Unknown(Reason.METRICS_MISSING, "Prometheus has no series of it")
SILENT = Unknown(Reason.METRICS_UNREACHABLE, "Prometheus gave no answer within 5 s")
NO_ANSWER = Unknown(Reason.METRICS_UNREADABLE, "status 503")
LIES = [
    Unknown(reason, "it is wrong")
    for reason in (
        Reason.METRICS_NOT_A_NUMBER,
        Reason.METRICS_AMBIGUOUS,
        Reason.METRICS_STALE,
        Reason.METRICS_UNCONFIGURED,
    )
]


def after(reading, age, key=KV):
    """Return what holds of a signal that was 0.9 and is now told as `reading`."""
    return bridged({key: reading}, {key: Sample(0.9, START - age)}, START, TICK)[key]


@pytest.mark.parametrize("miss", [NONE, SILENT, NO_ANSWER])
@pytest.mark.parametrize("key", [KV, BACKLOG])
def test_what_was_missed_is_the_last_sample_at_its_own_time_for_three_scrapes(key, miss):
    assert after(miss, AGE_LIMIT_SECONDS, key) == Sample(0.9, START - AGE_LIMIT_SECONDS)
    assert after(miss, AGE_LIMIT_SECONDS + 0.1, key) is miss


def test_a_sample_is_not_held_on_for_longer_because_the_clock_was_set_back():
    assert after(NONE, age=-5) == Sample(0.9, START + 5)
    assert after(NONE, age=-600) is NONE


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.reason)
def test_what_was_told_wrong_is_unknown_at_once(lie):
    assert after(lie, age=1) is lie


def test_what_informs_only_is_not_held_on():
    assert after(NONE, age=1, key=TTFT) is NONE


def test_what_was_never_known_stays_unknown():
    assert bridged({KV: NONE}, {}, START, TICK) == {KV: NONE}
    assert bridged({KV: NONE}, {KV: GONE}, START, TICK) == {KV: NONE}


READING = st.one_of(
    st.sampled_from([NONE, SILENT, *LIES]),
    st.builds(Sample, st.floats(0, 1), st.floats(START - 30, START)),
)


@given(now=READING, before=READING)
def test_no_value_is_made_up_and_none_is_older_than_three_scrapes(now, before):
    found = bridged({KV: now}, {KV: before}, START, TICK)[KV]

    assert found in (now, before)
    if isinstance(now, Sample) or isinstance(before, Unknown):
        assert found is now
    elif isinstance(found, Sample):
        assert START - found.at <= AGE_LIMIT_SECONDS


WHILE_IT_RUNS = [NONE, SILENT, *(lie for lie in LIES if lie.reason != Reason.METRICS_UNCONFIGURED)]
"""No Prometheus is taken away under an operator that runs; where none is set shares go back."""


@given(st.floats(0, 1), st.lists(st.sampled_from(WHILE_IT_RUNS), min_size=1, max_size=40))
def test_a_sample_that_is_held_on_moves_a_share_once_at_most(value, told):
    """Twice its age must have passed since the last step: a value that stays away cannot drive."""
    loop = Loop(spec(actions=["Shed"]))
    loop.looks(3, kv=1.0)
    known = {KV: Sample(value, loop.now)}
    shares = [loop.shares]
    for reading in told:
        known = bridged({KV: reading}, known, loop.now + 5.0, TICK)
        loop.look(readings=known)
        shares.append(loop.shares)

    assert len({share for share in shares if share}) <= 2
