"""A clock that is set back, or a new leader with a slower one: nothing waits for it to catch up."""

import pytest

from tidegate.core.overload.decide import DWELL_SECONDS
from tidegate.core.overload.decision import Headroom

from .loops import Loop, spec

SHED = {"actions": ["Shed"]}
BACK = pytest.mark.parametrize("seconds", [3.0, 60.0, 600.0, 86_400.0])


def waits(loop, until, **values):
    """Return the seconds until something holds, in looks of 5 s."""
    for number in range(1, 200):
        loop.look(**values)
        if until(loop):
            return 5 * number
    return None


@BACK
def test_a_share_goes_on_growing_in_an_overload(seconds):
    loop = Loop(spec(**SHED))
    loop.looks(4, kv=0.97)
    held = sum(loop.shares)
    loop.now -= seconds

    assert waits(loop, lambda loop: sum(loop.shares) > held, kv=1.0) <= 10


@BACK
def test_an_overload_is_seen_after_a_dwell_and_enter_after(seconds):
    loop = Loop(spec(enterAfter="20s", exitAfter="20s", **SHED))
    loop.looks(10, kv=0.97)
    loop.looks(60, kv=0.3, after=10.0)
    assert loop.decision.state == "Normal"
    loop.now -= seconds

    took = waits(loop, lambda loop: loop.decision.state == "Overloaded", kv=1.0)
    assert took <= DWELL_SECONDS + 20 + 10


@BACK
def test_shares_go_back_once_the_load_is_gone(seconds):
    def gone(loop):
        return waits(loop, lambda loop: loop.decision.state == "Normal", kv=0.1)

    plain, stepped = Loop(spec(**SHED)), Loop(spec(**SHED))
    for loop in (plain, stepped):
        loop.looks(6, kv=0.97)
        loop.looks(3, kv=0.1)
    stepped.now -= seconds

    assert gone(stepped) <= gone(plain) + DWELL_SECONDS + 60


@BACK
def test_shares_are_held_without_data_for_hold_for_once_more_at_most(seconds):
    loop = Loop(spec(holdFor="60s", **SHED))
    loop.looks(3, kv=1.0)
    loop.looks(6, kv=None)
    loop.now -= seconds

    assert waits(loop, lambda loop: sum(loop.shares) < 60, kv=None) <= 60 + 15


@BACK
def test_a_new_leader_that_knows_the_status_alone_does_not_wait_either(seconds):
    before = Loop(spec(**SHED))
    before.looks(4, kv=0.97)
    loop = Loop(spec(**SHED), previous=before.decision)
    loop.now = before.now - seconds

    assert waits(loop, lambda loop: sum(loop.shares) > sum(before.shares), kv=1.0) <= 10


@BACK
def test_what_is_moved_is_told_with_times_that_are_not_in_the_future(seconds):
    loop = Loop(spec(**SHED))
    loop.looks(4, kv=0.97)
    loop.now -= seconds

    made = loop.look(kv=0.85)
    assert max(made.since, made.changed_at) <= loop.now + 1
    assert loop.look(kv=0.85) is made


@BACK
def test_a_share_that_is_shifted_goes_on_growing(seconds):
    """What it has sent shows at the target after a while, whatever the clock says."""

    def after(minutes, step):
        loop = Loop(spec(shift={"to": "spill", "maxPercent": 90}))
        room = Headroom(True, 40.0, 100.0, "under exit")
        loop.looks(2, kv=0.95, headroom=room)
        loop.now -= step
        loop.looks(12 * minutes, kv=0.95, headroom=room)
        return loop.shares[1]

    assert after(5, seconds) >= after(4, 0)


@BACK
def test_what_a_target_did_not_bear_is_tried_anew_after_ten_minutes_at_most(seconds):
    loop = Loop(spec(shift={"to": "spill", "maxPercent": 90}))
    loop.looks(8, kv=1.0)
    loop.looks(10, kv=1.0, headroom=Headroom(True, 0.0, 100.0, "over enter"))
    bore = loop.shares[1]
    loop.now -= seconds

    assert waits(loop, lambda loop: loop.shares[1] > bore, kv=1.0) <= 600 + 20


@BACK
def test_what_a_target_bears_is_known_though_it_lets_go_of_its_own_sheds_after_the_clock(seconds):
    loop = Loop(spec(shift={"to": "spill", "maxPercent": 90}))
    loop.looks(8, kv=1.0)
    loop.looks(3, kv=1.0, headroom=Headroom(True, 0.0, 100.0, "over enter"))
    eased = Headroom(True, 100.0, 100.0, "between", shed_percent=10)
    loop.look(kv=1.0, headroom=eased)
    loop.now -= seconds
    loop.looks(4, kv=1.0, headroom=eased)
    bore = loop.timers.pressed.borne

    loop.looks(10, kv=1.0, headroom=eased)

    assert loop.timers.pressed.borne == bore
