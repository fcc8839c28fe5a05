"""When to come back, and who may be sent again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.gate.core.retry_after import Backlog, Outages
from tidegate.gate.core.retry_budget import RetryBudget


def backlog(dice=0.5):
    return Backlog(lambda: dice)


@pytest.mark.parametrize(
    ("queued", "drain", "expected"),
    [
        pytest.param(0, 1000.0, 1, id="at least a second"),
        pytest.param(5000, 500.0, 10, id="queue / drain speed"),
        pytest.param(500_000, 500.0, 30, id="at most half a minute"),
        pytest.param(5000, None, 5, id="a guess while nothing ended yet"),
    ],
)
def test_retry_after_is_the_queue_over_its_drain_speed(queued, drain, expected):
    assert backlog().seconds(5, 10, queued, drain, now=0.0) == expected


@settings(deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 10**6), st.floats(1, 1e6))
def test_it_stays_within_its_bounds_whatever_the_dice_say(dice, queued, drain):
    assert 1 <= backlog(dice).seconds(5, 10, queued, drain, now=0.0) <= 30


def test_jitter_spreads_by_a_quarter_either_way():
    told = [backlog(dice).seconds(5, 0, 20_000, 1000.0, 0.0) for dice in (0.0, 0.5, 0.999)]
    assert told == [15, 20, 25]


def test_those_who_are_turned_away_together_do_not_come_back_together():
    line = backlog()
    told = [line.seconds(5, 500, 0, 100.0, now=0.0) for _ in range(4)]
    assert told == [5, 10, 15, 20]
    assert line.seconds(5, 500, 0, 100.0, now=20.0) == 5  # they have been served meanwhile


def test_a_higher_class_does_not_stand_in_the_line_of_the_lower():
    line = backlog()
    for _ in range(5):
        line.seconds(2, 500, 0, 100.0, now=0.0)
    assert line.seconds(8, 500, 0, 100.0, now=0.0) == 5
    assert line.seconds(2, 500, 0, 100.0, now=0.0) == 30


class TestOutages:
    def test_an_outage_is_expected_to_last_as_long_as_others_did(self):
        outages = Outages(lambda: 0.5)
        now = 0.0
        for seconds in (20.0, 40.0, 30.0):
            outages.note(is_up=True, now=now)
            outages.note(is_up=False, now=now + 5)
            now += 5 + seconds
        outages.note(is_up=True, now=now)
        outages.note(is_up=False, now=now)
        assert outages.seconds(now + 10) == 20

    def test_one_that_lasts_longer_is_expected_to_last_as_long_again(self):
        outages = Outages(lambda: 0.5)
        outages.note(is_up=False, now=0.0)
        assert outages.seconds(1.0) == 9
        assert outages.seconds(40.0) == 40
        assert outages.seconds(500.0) == 60

    def test_the_start_of_a_deployment_is_no_outage(self):
        outages = Outages(lambda: 0.5)
        outages.note(is_up=False, now=0.0)
        outages.note(is_up=True, now=50.0)
        outages.note(is_up=False, now=100.0)
        assert outages.seconds(100.0) == 10


class TestRetryBudget:
    def test_a_fifth_of_the_requests_may_be_sent_again(self):
        budget = RetryBudget()
        for number in range(100):
            budget.asked(number / 20)
        assert [budget.take(5.0) for _ in range(25)].count(True) == 20

    def test_little_traffic_has_a_few(self):
        budget = RetryBudget()
        budget.asked(0.0)
        assert [budget.take(0.1) for _ in range(5)].count(True) == 3

    def test_what_is_past_is_past(self):
        budget = RetryBudget()
        for _ in range(100):
            budget.asked(0.0)
        assert [budget.take(1.0) for _ in range(20)].count(True) == 20
        assert [budget.take(11.5) for _ in range(5)].count(True) == 3
