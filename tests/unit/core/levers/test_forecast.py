"""What a lever will do is told in numbers before it is pulled, and unknown where it is."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.levers import forecast
from tidegate.core.levers.forecast import lowest_first
from tidegate.core.levers.gates import Gates
from tidegate.core.levers.lever import Lever, held, is_written, patch
from tidegate.core.levers.load import Load
from tidegate.core.levers.present import Present, present
from tidegate.core.levers.target import Target

UNTIL = datetime(2026, 11, 30, 3, tzinfo=UTC)
SHED = Lever("Shed", UNTIL, "INC-1", percent=30)
SHIFT = Lever("Shift", UNTIL, "INC-1", percent=30, to="west")
LOAD = Load(
    asked=10.0, by_class={2: 4.0, 5: 4.0, 9: 2.0}, reserved_tokens=500, capacity_tokens=1000
)
NONE = Present(0, 0)


def test_shedding_takes_the_lowest_class_first():
    told = forecast.of_lever(SHED, LOAD, floor=9, present=NONE)

    assert (told.asked, told.taken) == (10.0, pytest.approx(3.0))
    assert told.taken_by_class == {2: pytest.approx(3.0)}
    assert told.kept_classes == (5, 9)
    assert "Turned away: about 3.0 of them a second (30 %)" in " ".join(told.sentences)
    assert "class 2: 3.0 of 4.0" in " ".join(told.sentences)


def test_classes_from_the_floor_up_are_kept_whatever_the_share_is():
    told = forecast.of_lever(Lever("Shed", UNTIL, "x", percent=100), LOAD, floor=5, present=NONE)

    assert told.taken == pytest.approx(4.0)
    assert told.kept_classes == (5, 9)


WEST = Load(
    asked=8.0, admitted=6.0, tightest=(600, 1000), reserved_tokens=600, capacity_tokens=1000
)


def test_a_shift_tells_the_room_of_the_target_up_to_where_the_loop_would_fill_it():
    west = Target("west", WEST, NONE, "Normal", exit=0.8)
    told = forecast.of_lever(SHIFT, LOAD, floor=9, present=NONE, target=west)

    assert told.headroom == pytest.approx(2.0)
    assert "60% of its KV is reserved; state Normal" in told.sentences[-1]
    assert "less than what is moved" in told.sentences[-1]


@pytest.mark.parametrize(
    ("target", "room"),
    [
        (Target("west", Load()), None),
        (Target("west", Load(asked=0.0, tightest=(0, 1000))), None),
        (Target("west", Load(asked=5.0, admitted=5.0, tightest=(1000, 1000))), 0.0),
        (Target("west", Load(asked=5.0, admitted=5.0, tightest=(800, 1000)), exit=0.8), 0.0),
        (Target("west", WEST, Present(80, 0), "Overloaded"), 0.0),
        (Target("west", WEST, Present(0, 10), "Overloaded"), 0.0),
    ],
    ids=["tells nothing", "idle: nothing to reckon from", "full", "at exit", "sheds", "shifts"],
)
def test_the_room_of_a_target_is_not_made_up(target, room):
    assert target.headroom(Load()) == room


def test_a_target_that_turns_requests_away_is_told_to_have_no_room():
    west = Target("west", WEST, Present(80, 0), "Overloaded")
    told = forecast.of_lever(SHIFT, LOAD, floor=9, present=NONE, target=west)

    assert "Room at west: none, it sheds 80 % itself" in told.sentences[-1]
    assert told.document()["target"] == {
        "name": "west",
        "state": "Overloaded",
        "shedPercent": 80,
        "shiftPercent": 0,
        "gates": {"total": 0, "answering": 0},
    }


def test_a_milder_lever_is_warned_of_with_what_comes_in_for_it():
    load = Load(asked=200.0, shed_percent=84, gates=Gates(1, 1))
    lever = Lever("Shift", UNTIL, "x", percent=20, to="west")
    told = forecast.of_lever(lever, load, 9, present(load, {"state": "Overloaded"}))

    assert told.more == pytest.approx(128.0)
    assert told.sentences[1] == (
        "Warning: the loop sheds 84 % now; that ends. About 128.0 requests a second more come in."
    )
    assert told.document()["morePerSecond"] == 128.0
    assert told.document()["now"] == {"shedPercent": 84, "shiftPercent": 0.0, "by": "loop"}


@pytest.mark.parametrize(
    ("lever", "now", "told"),
    [
        (SHED, Present(10, 5), "The loop sheds 10 % and shifts 5 % now; that ends. About 15.0"),
        (SHED, Present(30, 0), "The loop sheds 30 % now; that ends. As many requests come in"),
        (SHED, Present(0, 40, by_lever=True), "Warning: the lever that holds shifts 40 % now;"),
        (SHED, Present(), "What is turned away and shifted now is unknown; it ends."),
    ],
)
def test_what_a_lever_ends_is_said(lever, now, told):
    assert forecast.of_lever(lever, Load(asked=100.0), 9, now).sentences[1].startswith(told)


def test_where_nothing_holds_nothing_ends():
    assert "ends" not in " ".join(forecast.of_lever(SHED, LOAD, 9, NONE).sentences)


@given(
    shares=st.tuples(*[st.integers(0, 100)] * 3),
    floor=st.integers(0, 10),
    mix=st.dictionaries(st.integers(0, 9), st.floats(0.1, 100), max_size=10),
)
def test_a_lever_of_no_less_than_the_loops_shed_lets_no_more_in(shares, floor, mix):
    low, high, other = sorted(shares)[0], sorted(shares)[2], shares[1]
    load = Load(asked=sum(mix.values()) or 10.0, by_class=mix)
    lever = Lever("Shed", UNTIL, "x", percent=high)

    assert forecast.of_lever(lever, load, floor, Present(low, 0)).more <= 1e-6
    assert forecast.of_lever(Lever("Open", UNTIL, "x"), load, floor, Present(low, other)).more >= 0


def test_with_a_floor_of_0_nobody_is_turned_away_and_that_is_said():
    told = forecast.of_lever(SHED, Load(asked=5.0), 0, NONE)

    assert told.taken == 0.0
    assert "spec.overload.shed.floor is 0" in told.sentences[-1]
    assert "Turned away" not in " ".join(told.sentences)


def test_what_some_gates_tell_is_at_least_so_much():
    load = Load(gates=Gates(3, 1), asked=10.0, by_class={2: 10.0})
    told = forecast.of_lever(SHED, load, 9, NONE)

    assert told.sentences[0].startswith("Requests per second now, by 1 of 3 gates: at least 10.0.")
    assert "Turned away: at least about 3.0 of them" in told.sentences[1]
    assert told.document()["gates"] == {"total": 3, "answering": 1}


@pytest.mark.parametrize("lever", [SHED, SHIFT])
def test_what_no_gate_tells_is_unknown_and_not_zero(lever):
    told = forecast.of_lever(lever, Load(), floor=9, present=NONE, target=Target("west", Load()))

    assert (told.asked, told.taken) == (None, None)
    assert "unknown" in told.sentences[0]
    assert "an unknown number" in told.sentences[1]
    assert told.document()["requestsPerSecond"] is None


def test_opening_says_which_shares_end():
    told = forecast.of_lever(Lever("Open", UNTIL, "x"), Load(asked=10.0), 9, Present(40, 0))
    assert "Shares now: shed 40 %; they end" in told.sentences[1]
    assert told.sentences[2] == "About 4.0 requests a second more come in."


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


NOW = datetime(2026, 11, 30, 2, tzinfo=UTC)
HELD = {"action": "Shed", "percent": 30, "until": "2026-11-30T02:00:01Z", "reason": "x"}
LAPSED = {**HELD, "until": "2026-11-30T02:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, None),
        ({"overload": {}}, None),
        ({"overload": {"override": HELD}}, HELD),
        ({"overload": {"override": LAPSED}}, None),
    ],
)
def test_the_lever_that_holds_is_found_and_one_that_has_lapsed_is_none(spec, wanted):
    assert held({"spec": spec}, NOW) == wanted


def test_a_lever_is_found_to_be_written_whoever_is_its_author():
    stored = {"spec": {"overload": {"override": {**SHED.override(), "setBy": "robin"}}}}

    assert is_written(SHED, stored)
    assert not is_written(SHIFT, stored)
    assert not is_written(None, stored)
    assert is_written(None, {"spec": {}})
