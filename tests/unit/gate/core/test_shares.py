import dataclasses
import math
import random
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gate.core.asking import asked, chat

from tidegate.gate.core import shares
from tidegate.gate.core.shares import Percentage, Weights
from tidegate.gate.exchange import Caller

ASK = asked(chat())


def ask(number, priority=5, request_id=None):
    return dataclasses.replace(
        ASK,
        request_id=request_id or f"id-{number}",
        caller=Caller("anonymous", priority),
        serial=number + 1,
    )


def windows(taken, size=1000):
    """The sums of all windows of this many."""
    total = sum(taken[:size])
    yield total
    for index in range(size, len(taken)):
        total += taken[index] - taken[index - size]
        yield total


@given(percent=st.floats(0, 100), priority=st.integers(0, 9))
@settings(max_examples=15)
def test_of_any_thousand_requests_of_one_class_the_share_is_exact(percent, priority):
    share = Percentage()
    taken = [share.takes(ask(number, priority), percent) for number in range(2500)]

    # The debt begins between the classes: five requests are made up for, one in so many of all.
    rarer = min(percent, 100 - percent) / 100
    settled = taken[math.ceil(6 / rarer) :] if rarer > 0.005 else []
    for total in windows(settled) if settled else ():
        assert total == pytest.approx(percent * 10, abs=1.001)
    for total in windows(taken):
        assert total == pytest.approx(percent * 10, abs=6)


@pytest.mark.parametrize("percent", [1, 7.5, 20, 33.3, 50, 95, 99.5])
def test_from_the_first_request_on_the_default_class_is_shed_exactly(percent):
    share = Percentage()
    taken = [share.takes(ask(number), percent) for number in range(2000)]

    for total in windows(taken):
        assert total == pytest.approx(percent * 10, abs=1.5)


@pytest.mark.parametrize("percent", [5, 20, 45, 60, 80])
def test_with_classes_mixed_the_share_is_within_a_percent_point(percent):
    share, random_ = Percentage(), random.Random(7)
    taken = [share.takes(ask(n, random_.choice([0, 3, 5, 9])), percent) for n in range(4000)]

    for total in windows(taken):
        assert total == pytest.approx(percent * 10, abs=10)


def shed_by_class(percent, classes, seed=3):
    share, random_ = Percentage(), random.Random(seed)
    seen, shed = Counter(), Counter()
    for number in range(6000):
        priority = random_.choice(classes)
        seen[priority] += 1
        shed[priority] += share.takes(ask(number, priority), percent)
    return {priority: shed[priority] / seen[priority] for priority in seen}


def test_the_lowest_class_goes_first():
    few = shed_by_class(20, [0, 9])
    assert few[9] == 0
    assert few[0] == pytest.approx(0.4, abs=0.03)

    many = shed_by_class(60, [0, 9])
    assert many[0] > 0.97
    assert many[9] == pytest.approx(0.2, abs=0.04)

    between = shed_by_class(30, [1, 1, 5, 5, 5, 5, 5, 9, 9, 9])
    assert between[1] > 0.97
    assert between[9] < 0.02


@pytest.mark.parametrize("priority", range(10))
def test_all_and_none_mean_it(priority):
    everything, nothing = Percentage(), Percentage()

    assert all(everything.takes(ask(number, priority), 100) for number in range(50))
    assert not any(nothing.takes(ask(number, priority), 0) for number in range(50))


def test_asked_again_about_the_same_request_the_answer_is_the_same():
    share = Percentage()
    for number in range(300):
        first = share.takes(ask(number), 30)
        assert all(share.takes(ask(number), 30) is first for _ in range(5))


@pytest.mark.parametrize("percent", [10, 30, 80])
def test_no_client_escapes_by_ids_that_were_let_through(percent):
    share, lucky, turned_away = Percentage(), "first", 0
    for number in range(3000):
        is_sly = number % 3 == 0
        request_id = lucky if is_sly else None
        if share.takes(ask(number, request_id=request_id), percent):
            turned_away += is_sly
            lucky = f"another-{number}" if is_sly else lucky

    assert turned_away == pytest.approx(10 * percent, abs=10)


@pytest.mark.parametrize("percent", [20, 60, 100])
def test_classes_from_the_floor_up_are_never_taken(percent):
    share, dice, taken = Percentage(), random.Random(5), Counter()
    for number in range(4000):
        priority = dice.choice([3, 5, 7, 9])
        taken[priority] += share.takes(ask(number, priority), percent, floor=7)

    assert taken[7] == taken[9] == 0
    assert taken.total() == pytest.approx(min(2000, 40 * percent), rel=0.06)


def test_a_floor_of_zero_protects_everybody():
    share = Percentage()

    assert not any(share.takes(ask(number, 0), 100, floor=0) for number in range(50))


def test_what_is_remembered_is_bounded():
    share = Percentage()
    for number in range(20_000):
        share.takes(ask(number), 50)

    assert len(share._drawn._lots) <= 4096


@given(
    weights=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 1000), min_size=1, max_size=5)
)
@settings(max_examples=15)
def test_of_any_thousand_requests_each_revision_gets_its_weight(weights):
    dice, total = Weights(), sum(weights.values())
    chosen = [dice.order(ask(number), weights)[0] for number in range(2000)]

    for name, weight in weights.items():
        for count in windows([one == name for one in chosen]):
            assert count == pytest.approx(1000 * weight / total, abs=len(weights))


def test_the_other_revisions_follow_by_weight():
    order = Weights().order(ask(1), {"a": 1, "b": 50, "c": 49})

    assert order == ["b", "c", "a"]


def test_a_request_that_waits_keeps_its_revision_and_is_counted_once():
    dice, weights = Weights(), {"stable": 90, "canary": 10}
    chosen = Counter()
    for number in range(1000):
        orders = {tuple(dice.order(ask(number), weights)) for _ in range(4)}
        assert len(orders) == 1
        chosen[orders.pop()[0]] += 1

    assert chosen == {"stable": 900, "canary": 100}


def test_one_client_with_one_id_does_not_flood_the_canary():
    dice, weights = Weights(), {"stable": 90, "canary": 10}
    chosen = Counter(
        dice.order(ask(number, request_id="always"), weights)[0] for number in range(2000)
    )

    assert chosen["canary"] == pytest.approx(200, abs=10)


def test_a_revision_that_is_gone_is_not_drawn_again():
    dice = Weights()
    first = dice.order(ask(1), {"a": 1, "b": 1})[0]
    other = "b" if first == "a" else "a"

    assert dice.order(ask(1), {other: 1}) == [other]
    assert dice.order(ask(2), {}) == []


@pytest.mark.parametrize(
    ("until", "wall", "holds"), [(None, 1e12, True), (100, 99.9, True), (100, 100, False)]
)
def test_a_share_lapses_by_itself(until, wall, holds):
    moment = None if until is None else datetime.fromtimestamp(until, UTC)

    assert shares.is_valid(moment, wall) is holds
