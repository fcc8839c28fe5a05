"""The lever of the one on call."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload.decision import Headroom
from tidegate.core.overload.lever import target

from .loops import START, Loop, lever, spec

SPILL = {"shift": {"to": "spill"}}


@pytest.mark.parametrize(
    ("pulled", "shares", "to"),
    [
        pytest.param(lever("Shed", percent=30), (30, 0), "", id="shed"),
        pytest.param(lever("Shed", percent=100), (100, 0), "", id="beyond the loop's maximum"),
        pytest.param(lever("Shift", percent=80), (0, 80), "spill", id="shift where the loop does"),
        pytest.param(
            lever("Shift", percent=10, to="other"), (0, 10), "other", id="shift elsewhere"
        ),
        pytest.param(lever("Open"), (0, 0), "", id="open whatever the signals say"),
    ],
)
def test_a_lever_sets_its_shares_at_once_whatever_the_signals_say(pulled, shares, to):
    loop = Loop(spec(**SPILL))
    loop.looks(3, kv=1.0)
    loop.spec = spec(override=pulled, **SPILL)

    made = loop.look(kv=1.0)

    assert (made.state, loop.shares, made.shift_to) == ("Override", shares, to)
    assert made.reason == Reason.OVERRIDE_ACTIVE
    assert made.until == START + 600 + 60, "so that the loop can give them back in steps"


def test_a_lever_is_told_with_its_author_its_reason_and_its_end():
    pulled = lever("Shed", percent=30, setBy="jo@example.com")
    made = Loop(spec(override=pulled)).look(kv=0.1)

    assert made.message == (
        "Shed set by jo@example.com until 2027-01-15T08:10:00Z (INC-1): 30 % are turned away"
    )


def test_once_it_lapses_the_loop_goes_on_from_where_the_lever_was():
    loop = Loop(spec(override=lever("Shed", until=START + 7, percent=30)))
    loop.look(kv=0.1)

    assert loop.look(kv=1.0).state == "Overloaded"
    assert loop.shares == (40, 0)


def test_an_open_lever_that_lapses_in_an_overload_does_not_wait_for_enter_after_again():
    loop = Loop(spec(enterAfter="10s", override=lever("Open", until=START + 58)))
    loop.looks(11, kv=1.0)

    assert loop.look(kv=1.0).state == "Overloaded"


def test_what_a_lever_shed_is_given_back_step_by_step():
    loop = Loop(spec(override=lever("Shed", percent=30)))
    loop.look(kv=0.85)
    loop.spec = spec()

    shares = [loop.look(kv=0.5, after=10).shed_percent for _ in range(6)]

    assert sorted(set(shares), reverse=True) == [30, 20, 10, 0]
    assert loop.decision.state == "Normal"


def test_what_a_lever_shed_goes_back_until_the_pool_is_at_exit():
    loop = Loop(spec(override=lever("Shed", percent=50)))
    loop.looks(10, kv=0.42)
    loop.spec = spec()

    for _ in range(30):
        loop.look(kv=0.84 * (100 - sum(loop.shares)) / 100, after=10)

    assert loop.decision.state == "Normal"
    assert loop.shares[0] <= 5, "0.84 of all and 0.8 of 95 %"


@pytest.mark.parametrize(
    ("headroom", "why"),
    [
        (Headroom(False), "is not there"),
        (Headroom(True, 50, 50, False, shifts_itself=True), "in a circle"),
    ],
)
def test_a_lever_never_shifts_to_where_requests_are_lost_or_go_in_a_circle(headroom, why):
    loop = Loop(spec(override=lever("Shift", percent=50, to="spill")))

    made = loop.look(kv=0.5, headroom=headroom)

    assert loop.shares == (0, 0)
    assert why in made.message


@pytest.mark.parametrize(
    ("of", "at", "named"),
    [
        (spec(), START, ""),
        (spec(**SPILL), START, "spill"),
        (spec(override=lever("Shift", percent=1, to="other"), **SPILL), START, "other"),
        (spec(override=lever("Shift", percent=1, to="other"), **SPILL), START + 600, "spill"),
        (spec(override=lever("Shed", percent=1), **SPILL), START, "spill"),
    ],
)
def test_the_target_is_the_levers_while_it_holds(of, at, named):
    assert target(of, at) == named
