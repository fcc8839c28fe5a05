"""What a lever will do is told in numbers before it is pulled, and unknown where it is."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.levers import forecast
from tidegate.core.levers.forecast import Target, lowest_first
from tidegate.core.levers.lever import Lever, held, patch
from tidegate.core.levers.load import Load

UNTIL = datetime(2026, 11, 30, 3, tzinfo=UTC)
SHED = Lever("Shed", UNTIL, "INC-1", percent=30)
SHIFT = Lever("Shift", UNTIL, "INC-1", percent=30, to="west")
LOAD = Load(
    asked=10.0, by_class={2: 4.0, 5: 4.0, 9: 2.0}, reserved_tokens=500, capacity_tokens=1000
)


def test_shedding_takes_the_lowest_class_first():
    told = forecast.of_lever(SHED, LOAD, floor=9)

    assert (told.asked, told.taken) == (10.0, pytest.approx(3.0))
    assert told.taken_by_class == {2: pytest.approx(3.0)}
    assert told.kept_classes == (5, 9)
    assert "Turned away: about 3.0 of them a second (30 %)" in " ".join(told.sentences)
    assert "class 2: 3.0 of 4.0" in " ".join(told.sentences)


def test_classes_from_the_floor_up_are_kept_whatever_the_share_is():
    told = forecast.of_lever(Lever("Shed", UNTIL, "x", percent=100), LOAD, floor=5)

    assert told.taken == pytest.approx(4.0)
    assert told.kept_classes == (5, 9)


def test_a_shift_tells_the_room_of_the_target():
    west = Target("west", Load(asked=8.0, reserved_tokens=800, capacity_tokens=1000))
    told = forecast.of_lever(SHIFT, LOAD, floor=9, target=west)

    assert told.headroom == pytest.approx(2.0)
    assert "80% of its KV is reserved" in told.sentences[-1]
    assert "less than what is moved" in told.sentences[-1]


@pytest.mark.parametrize(
    ("load", "room"),
    [
        (Load(), None),
        (Load(asked=0.0, capacity_tokens=1000), None),
        (Load(asked=5.0, reserved_tokens=1000, capacity_tokens=1000), 0.0),
    ],
    ids=["tells nothing", "idle: nothing to reckon from", "full"],
)
def test_the_room_of_a_target_is_not_made_up(load, room):
    assert Target("west", load).headroom() == room


@pytest.mark.parametrize("lever", [SHED, SHIFT])
def test_what_no_gate_tells_is_unknown_and_not_zero(lever):
    told = forecast.of_lever(lever, Load(), floor=9, target=Target("west", Load()))

    assert (told.asked, told.taken) == (None, None)
    assert "unknown" in told.sentences[0]
    assert "an unknown number" in told.sentences[1]
    assert told.document()["requestsPerSecond"] is None


def test_opening_says_which_shares_end():
    told = forecast.of_lever(Lever("Open", UNTIL, "x"), Load(asked=1.0, shed_percent=40), floor=9)
    assert "Shares now: shed 40 %; they end" in told.sentences[1]


MIXES = st.dictionaries(st.integers(0, 9), st.floats(0, 1000), max_size=10)


@given(mix=MIXES, percent=st.floats(0, 100), floor=st.integers(0, 10))
def test_never_more_than_the_share_is_taken_nor_than_a_class_has(mix, percent, floor):
    taken = lowest_first(mix, percent, floor)

    assert sum(taken.values()) <= sum(mix.values()) * percent / 100 + 1e-6
    assert all(taken[number] <= mix[number] + 1e-9 for number in taken)
    assert all(number < floor for number in taken)


@given(mix=MIXES, percents=st.tuples(st.floats(0, 100), st.floats(0, 100)), floor=st.integers(0, 9))
def test_a_larger_share_never_takes_less_of_a_class(mix, percents, floor):
    less, more = (lowest_first(mix, percent, floor) for percent in sorted(percents))
    assert all(less[number] <= more.get(number, 0) + 1e-6 for number in less)


def test_a_patch_names_every_field_so_that_nothing_of_an_earlier_lever_stays():
    override = patch(Lever("Open", UNTIL, "why"), "7")["spec"]["overload"]["override"]

    assert override == {
        "action": "Open",
        "percent": None,
        "to": None,
        "until": "2026-11-30T03:00:00Z",
        "reason": "why",
        "setBy": None,
    }


def test_a_patch_holds_for_one_version_only_and_none_lets_go():
    told = patch(None, "7")

    assert told["metadata"] == {"resourceVersion": "7"}
    assert told["spec"]["overload"]["override"] is None


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({}, None), ({"overload": {}}, None), ({"overload": {"override": {"a": 1}}}, {"a": 1})],
)
def test_the_lever_that_holds_is_found(spec, wanted):
    assert held({"spec": spec}) == wanted
