"""The load of a deployment is what its gates counted between two reads, and nothing made up."""

import pytest
from tests.unit.core.levers.readings import admitted, ended, reading

from tidegate.core.levers import load as loads
from tidegate.core.levers.quantile import quantile
from tidegate.core.levers.samples import windows


def between(*gates, seconds=2.0):
    """Return the load by (before, after) of each gate."""
    before = {str(n): reading(first, 10.0) for n, (first, _) in enumerate(gates)}
    after = {str(n): reading(last, 10.0 + seconds) for n, (_, last) in enumerate(gates)}
    return loads.load(before, after)


def test_requests_that_came_are_those_with_a_seat_and_those_turned_away_or_shifted():
    refused, shifted = (ended(10, outcome=each, reason="shed") for each in ("refused", "shifted"))
    load = between((admitted(100), admitted(120) + refused + shifted))

    assert load.asked == pytest.approx(20.0)
    assert load.refused == {"shed": pytest.approx(5.0)}
    assert load.shifted == pytest.approx(5.0)


def test_gates_add_up():
    one = (admitted(0), admitted(10))
    assert between(one, one).asked == pytest.approx(10.0)


def test_a_gate_that_started_anew_counts_from_zero():
    assert between((admitted(1000), admitted(6))).asked == pytest.approx(3.0)


def test_a_gate_that_was_read_once_only_adds_nothing():
    before, after = {"a": reading(admitted(5), 1.0)}, {"b": reading(admitted(9000), 2.0)}
    assert loads.load(before, after).asked is None


def test_what_the_gate_answers_itself_is_no_request_to_serve():
    load = between((admitted(0), admitted(0) + ended(500, outcome="answered")))

    assert load.asked == 0
    assert load.by_class == {}


def test_the_mix_of_classes_is_told_when_enough_requests_say_so():
    few = between(("", ended(5, 2) + ended(5, 9)))
    many = between(("", ended(10, 2) + ended(30, 9)))

    assert few.by_class == {}
    assert many.by_class == {2: pytest.approx(5.0), 9: pytest.approx(15.0)}


def test_without_any_gate_nothing_is_known():
    load = loads.load({}, {})
    assert (load.asked, load.used, load.ttft_seconds) == (None, None, (None, None))


BUCKETS = [("0.1", 50), ("0.5", 90), ("1.0", 100), ("+Inf", 100)]


def histogram(scale, buckets=BUCKETS):
    return "".join(f't_bucket{{le="{bound}"}} {count * scale}\n' for bound, count in buckets)


@pytest.mark.parametrize(("share", "wanted"), [(0.5, 0.1), (0.7, 0.3), (0.9, 0.5), (1.0, 1.0)])
def test_a_quantile_is_reckoned_within_its_bucket(share, wanted):
    found = windows({"a": reading(histogram(1), 1)}, {"a": reading(histogram(2), 2)})
    assert quantile(share, found, "t") == pytest.approx(wanted)


def test_with_too_few_samples_a_quantile_is_not_known():
    few = [(bound, count / 25) for bound, count in BUCKETS]
    found = windows({"a": reading("", 1)}, {"a": reading(histogram(1, few), 2)})
    assert quantile(0.5, found, "t") is None


def test_over_the_last_bound_it_is_at_least_that_bound():
    found = windows(
        {"a": reading("", 1)}, {"a": reading(histogram(1, [("1.0", 0), ("+Inf", 50)]), 2)}
    )
    assert quantile(0.95, found, "t") == 1.0


def test_outcomes_are_counted_over_all_gates():
    before = {"a": reading(ended(3), 1), "b": reading("", 1)}
    after = {"a": reading(ended(5), 2), "b": reading(ended(1, outcome="deadline"), 2)}
    assert loads.outcomes(before, after) == {"finished": 2, "deadline": 1}
