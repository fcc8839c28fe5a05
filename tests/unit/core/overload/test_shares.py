"""Shift first, then shed; shift only what the other deployment can take."""

import pytest

from tidegate.core.overload.decision import Headroom

from .loops import ROOMY, Loop, spec

SPILL = {"shift": {"to": "spill", "maxPercent": 50}}
FULL = Headroom(True, 0.0, 100.0, stands="over enter")


def test_requests_are_shifted_before_any_is_shed():
    loop = Loop(spec(**SPILL))

    seen = [loop.look(kv=1.0) and loop.shares for _ in range(5)]

    assert seen == [(0, 20), (0, 40), (10, 50), (30, 50), (40, 50)]


def test_the_order_of_the_actions_is_the_users():
    loop = Loop(spec(actions=["Shed", "Shift"], shed={"maxPercent": 30}, **SPILL))

    loop.looks(3, kv=1.0)

    assert loop.shares == (30, 30)


@pytest.mark.parametrize(
    ("headroom", "shift"),
    [
        pytest.param(
            Headroom(True, 12.0, 100.0, "under exit"), 6, id="half of 12 of 100 requests/s"
        ),
        pytest.param(Headroom(True, 0.0, 100.0, "under exit"), 0, id="no room"),
        pytest.param(Headroom(True, None, 100.0, "under exit"), 0, id="room unknown"),
        pytest.param(Headroom(True, 12.0, None, "under exit"), 0, id="own load unknown"),
        pytest.param(Headroom(True, 100.0, 100.0, "over enter"), 0, id="over its own enter"),
        pytest.param(Headroom(True, 100.0, 100.0, "between"), 0, id="between its exit and enter"),
        pytest.param(Headroom(True, 100.0, 100.0), 0, id="its signals are not known"),
        pytest.param(Headroom(False), 0, id="not there"),
        pytest.param(
            Headroom(True, 100.0, 100.0, "under exit", "elsewhere"), 0, id="shifts itself"
        ),
        pytest.param(
            Headroom(True, 100.0, 100.0, "under exit", shed_percent=5),
            0,
            id="turns requests of its own away",
        ),
        pytest.param(None, 0, id="nothing known"),
    ],
)
def test_only_as_much_is_shifted_as_the_target_takes_and_the_rest_is_shed(headroom, shift):
    loop = Loop(spec(**SPILL))

    loop.look(kv=1.0, headroom=headroom)

    assert loop.shares == (20 - shift, shift)


def test_a_target_that_fills_up_gets_less_step_by_step_and_the_rest_is_shed():
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=1.0)
    assert loop.shares == (0, 40)

    seen = [loop.look(kv=0.85, headroom=FULL) and loop.shares for _ in range(5)]

    assert seen == [(10, 30), (20, 20), (30, 10), (40, 0), (40, 0)]


def test_a_target_between_its_exit_and_enter_keeps_what_it_has_and_gets_no_more():
    """Giving back and sending again by turns would find no prefix cached on either side."""
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=1.0)
    assert loop.shares == (0, 40)

    busy = Headroom(True, 0.0, 100.0, stands="between")
    seen = [loop.look(kv=1.0, headroom=busy) and loop.shares for _ in range(3)]

    assert seen == [(20, 40), (40, 40), (50, 40)]
    assert "spill is between its own exit and enter, so the share does not grow" in (
        loop.decision.because
    )


def test_what_is_on_its_way_to_a_target_is_taken_from_its_room_until_it_shows_there():
    loop = Loop(spec(**SPILL))
    room = Headroom(True, 60.0, 100.0, stands="under exit")

    seen = [loop.look(kv=1.0, headroom=room) and loop.shares[1] for _ in range(5)]

    assert seen == [20, 30, 30, 50, 50], "half of the room, and half of what is left of it later"


def test_a_target_that_is_gone_or_would_send_them_back_gets_none_at_once():
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=1.0)

    loop.look(kv=0.85, headroom=Headroom(False))

    assert loop.shares[1] == 0
    assert loop.decision.shift_to == ""


def test_what_is_shed_is_shifted_once_the_target_has_room():
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=1.0, headroom=FULL)
    assert loop.shares == (40, 0)

    seen = [loop.look(kv=0.85, headroom=ROOMY) and loop.shares for _ in range(5)]

    assert seen == [(30, 10), (20, 20), (10, 30), (0, 40), (0, 40)]


def test_what_is_shed_is_given_back_before_what_is_shifted():
    loop = Loop(spec(**SPILL))
    loop.looks(12, kv=1.0)
    assert loop.shares == (50, 50)

    loop.looks(120, kv=0.0)

    totals = [seen for seen in loop.seen[12:] if seen.shed_percent]
    assert all(seen.shift_percent == 50 for seen in totals)
    assert loop.shares == (0, 0)


def test_another_target_begins_from_nothing():
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=1.0)
    loop.spec = spec(shift={"to": "other"})

    made = loop.look(kv=0.85)

    assert (made.shift_percent, made.shift_to) == (0, "")


def test_it_says_why_not_more_is_shifted():
    made = Loop(spec(**SPILL)).look(kv=1.0, headroom=Headroom(True, 12.0, 100.0, "under exit"))

    assert made.message.endswith("6 % of the requests are served by spill and 14 % are turned away")
    assert "spill has room for 12.0 more of 100.0 requests/s" in made.because


# a target that was sent too much


def pressed(sent=50, **others):
    """Return a loop whose target was over its `enter` by what it was sent, and eased at `sent`."""
    loop = Loop(spec(shift={"to": "spill", "maxPercent": 90}, **others))
    loop.looks(8, kv=1.0)
    assert loop.shares[1] == 90
    while loop.shares[1] > sent:
        loop.look(kv=1.0, headroom=FULL)
    return loop


def test_it_is_sent_no_more_than_it_bore_though_it_is_calm_again():
    loop = pressed()
    bore = loop.shares[1]

    loop.looks(20, kv=1.0)

    assert loop.shares[1] == bore
    assert f"spill has not borne more than {bore} % of late" in loop.decision.because


def test_it_is_tried_anew_after_ten_minutes_and_after_twenty_where_that_was_vain():
    loop = pressed()
    bore = loop.shares[1]

    def grows_after(longest):
        begun = loop.now
        while loop.shares[1] <= bore and loop.now - begun < longest:
            loop.look(kv=1.0)
        return loop.now - begun

    assert grows_after(900) == pytest.approx(600, abs=20)
    while loop.shares[1] > bore:
        loop.look(kv=1.0, headroom=FULL)
    assert grows_after(1800) == pytest.approx(1200, abs=20)


def test_of_what_it_was_sent_it_bore_what_it_let_in_or_three_tenths_of_what_was_too_much():
    loop = pressed(sent=50)
    sheds = Headroom(True, 100.0, 100.0, "under exit", shed_percent=40)
    loop.looks(60, kv=1.0, headroom=sheds)
    assert loop.shares[1] == 0, "it goes back while others are turned away for it"

    loop.looks(60, kv=1.0)

    assert loop.timers.pressed.borne == 24, "of the 40 % that it had 10 s later it let 60 % in"
    assert loop.shares[1] == 27


def test_another_target_was_never_sent_too_much():
    loop = pressed(sent=20)
    loop.spec = spec(shift={"to": "other", "maxPercent": 90})
    loop.looks(3, kv=0.85, headroom={"other": ROOMY, "spill": Headroom(False)})

    loop.looks(20, kv=1.0)

    assert loop.decision.shift_to == "other"
    assert loop.shares[1] > 20


def test_a_share_that_is_lost_with_its_target_is_no_vain_try():
    loop = Loop(spec(shed={"maxPercent": 50}, **SPILL))
    loop.looks(8, backlog=5.0, offered=10)
    for _ in range(3):
        loop.looks(3, backlog=1.5, offered=10, headroom=Headroom(False))
        loop.looks(12, backlog=5.0, offered=10)

    assert loop.timers.vain_tries == 0


# bounds of the actions


@pytest.mark.parametrize("actions", [["Shed", "Shift"], ["Shift", "Shed"]])
def test_where_every_class_is_spared_nothing_is_said_to_be_turned_away(actions):
    loop = Loop(spec(actions=actions, shed={"floor": 0}, **SPILL))

    loop.looks(10, kv=1.0)

    assert loop.shares == (0, 50)


@pytest.mark.parametrize(
    ("bounds", "most"),
    [({}, 95), ({"shed": {"maxPercent": 40}}, 40), ({"shed": {"maxPercent": 100}}, 100)],
)
def test_an_excess_that_is_new_uses_the_last_points_too(bounds, most):
    loop = Loop(spec(actions=["Shed"], **bounds))
    while loop.shares[0] < most - 3:
        loop.look(kv=1.0)
    loop.looks(4, kv=0.85)  # between: what comes now is a new excess

    loop.looks(60, kv=1.0)

    assert loop.shares[0] == most
