"""The lever of the one on call."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload.decision import Decision, Headroom
from tidegate.core.overload.lever import target
from tidegate.core.overload.signal import Unknown

from .loops import KV, ROOMY, START, Loop, lever, spec

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


LEFT = [
    pytest.param("Shift", {}, {"to": "other"}, id="a target of its own"),
    pytest.param("Shift", SPILL, {"to": "other"}, id="another target than the loop's"),
    pytest.param("Shift", {"shift": {"to": "spill", "maxPercent": 20}}, {}, id="beyond the most"),
    pytest.param("Shed", {"shed": {"maxPercent": 20}}, {}, id="more shed than the loop may"),
    pytest.param("Shed", {"actions": ["Shift"]}, {}, id="the loop may not shed"),
    pytest.param("Shed", {"actions": []}, {}, id="the loop may do nothing"),
]


@pytest.mark.parametrize("kv", [0.5, 0.85, 0.95, None])
@pytest.mark.parametrize("is_taken_away", [False, True])
@pytest.mark.parametrize(("action", "parts", "of_lever"), LEFT)
def test_what_a_lever_kept_out_beyond_the_loops_bounds_comes_back_in_steps(
    kv, is_taken_away, action, parts, of_lever
):
    until = START + 600 if is_taken_away else START + 7
    loop = Loop(spec(override=lever(action, until, percent=80, **of_lever), **parts))
    loop.look(kv=kv)
    if is_taken_away:
        loop.spec = spec(**parts)

    before = sum(loop.shares)
    for _ in range(200):
        loop.look(kv=kv)
        assert before - 10 <= sum(loop.shares)
        before = sum(loop.shares)
        if kv == 0.5:
            assert action == "Shed" or not loop.shares[0], "nobody is turned away for a calm pool"

    assert loop.decision.shift_to != "other"
    assert loop.shares[0] <= (loop.spec.shed.max_percent if "Shed" in loop.spec.actions else 0)
    if kv in (0.5, None):
        assert loop.shares == (0, 0)


def test_what_a_lever_shifted_elsewhere_is_shed_here_once_it_lapses_in_an_overload():
    loop = Loop(spec(override=lever("Shift", START + 7, percent=40, to="other")))
    loop.look(kv=1.0)

    seen = [loop.look(kv=0.95) and loop.shares for _ in range(4)]

    assert [shift for _, shift in seen] == [30, 20, 10, 0]
    assert all(sum(shares) >= 40 for shares in seen)
    assert loop.decision.shift_to == ""


def test_what_a_lever_left_at_a_target_that_is_gone_ends_at_once():
    loop = Loop(spec(override=lever("Shift", START + 7, percent=80, to="other")))
    loop.look(kv=0.5)

    assert loop.look(kv=0.5, headroom=Headroom(False)).shift_percent == 0


def test_without_a_prometheus_what_a_lever_left_goes_back_step_by_step_at_once():
    unset = {KV: Unknown(Reason.METRICS_UNCONFIGURED, "prometheus.url is not set")}
    loop = Loop(spec(override=lever("Shed", START + 7, percent=40)))
    loop.look(unset)

    shares = [loop.look(unset, after=10).shed_percent for _ in range(6)]

    assert shares == [30, 20, 10, 0, 0, 0]


REFUSED = [
    pytest.param(Headroom(False), "is not there", id="it is not there, or no gate is ready"),
    pytest.param(
        Headroom(True, 50, 50, "under exit", shifts="back"),
        "in a circle",
        id="it shifts back",
    ),
]
GONE = {"gone": Headroom(False), "spill": ROOMY}


@pytest.mark.parametrize(("headroom", "why"), REFUSED)
def test_a_lever_never_shifts_to_where_requests_are_lost_or_go_in_a_circle(headroom, why):
    loop = Loop(spec(override=lever("Shift", percent=50, to="spill")))

    made = loop.look(kv=0.5, headroom=headroom)

    assert (made.state, loop.shares) == ("Normal", (0, 0))
    assert why in made.refused
    assert why in made.message
    assert why in made.because[0]


@pytest.mark.parametrize(("headroom", "why"), REFUSED)
def test_a_lever_that_cannot_be_carried_out_opens_nothing(headroom, why):
    loop = Loop(spec(actions=["Shed"]))
    loop.looks(20, kv=0.98)
    before = loop.decision
    assert before.shed_percent > 80
    loop.spec = spec(actions=["Shed"], override=lever("Shift", percent=20, to="other", setBy="jo"))

    made = loop.look(kv=0.97, headroom=headroom)

    assert (made.state, made.reason) == (before.state, before.reason)
    assert made.shed_percent == before.shed_percent
    assert made.message.startswith("Shift set by jo until 2027-01-15T08:10:00Z (INC-1) is refused:")
    assert why in made.message
    assert "turned away" in made.message


def test_a_lever_holds_where_its_target_shifts_elsewhere():
    """What was shifted once is served there: its gates send it no further."""
    loop = Loop(spec(override=lever("Shift", percent=60, to="spill")))
    loop.look(kv=0.97)

    made = loop.look(kv=0.97, headroom=Headroom(True, 0, 50, "over enter", shifts="elsewhere"))

    assert (made.state, loop.shares, made.refused) == ("Override", (0, 60), "")


def test_what_a_lever_has_shed_is_not_shifted_where_nothing_is_overloaded():
    loop = Loop(spec(override=lever("Shed", START + 15, percent=40), **SPILL))
    loop.looks(3, kv=0.3)

    shifts = {loop.look(kv=0.3).shift_percent for _ in range(60)}

    assert shifts == {0}
    assert loop.shares == (0, 0)


def test_a_refused_lever_leaves_the_loop_its_own_target():
    loop = Loop(spec(**SPILL))
    loop.looks(2, kv=0.97)
    loop.spec = spec(override=lever("Shift", percent=5, to="gone"), **SPILL)

    made = loop.looks(3, kv=0.97, headroom=GONE)

    assert (made.shift_to, made.shift_percent) == ("spill", 50)


def test_a_lever_whose_target_goes_away_and_comes_back_holds_only_while_it_is_there():
    there = {"gone": ROOMY}
    away = {"gone": Headroom(False)}
    loop = Loop(spec(actions=["Shed"], override=lever("Shift", percent=20, to="gone")))
    loop.look(kv=0.97, headroom=there)
    assert (loop.decision.state, loop.shares) == ("Override", (0, 20))

    shed = [loop.look(kv=0.97, headroom=away) and loop.shares for _ in range(6)]
    assert shed[0] == (20, 0), "what comes back is shed in the loop's own steps"
    assert shed == sorted(shed)
    assert loop.decision.state == "Overloaded"

    loop.look(kv=0.97, headroom=there)
    assert (loop.decision.state, loop.shares, loop.decision.refused) == ("Override", (0, 20), "")


def test_a_refused_lever_is_said_once_and_not_at_every_tick():
    loop = Loop(spec(override=lever("Shift", percent=20, to="gone")))
    first = loop.look(kv=0.5, headroom=GONE)

    assert loop.looks(20, kv=0.6, headroom=GONE) is first
    loop.spec = spec()
    assert loop.look(kv=0.6).refused == ""


@pytest.mark.parametrize(
    ("percent", "held"),
    [(0.01, 1), (0.5, 1), (2.5, 3), (30, 30), (99.1, 100), (100, 100)],
)
def test_a_part_of_a_percent_counts_as_a_whole_one_and_never_as_none(percent, held):
    """What an earlier version let in is read still."""
    for action, shares in (("Shed", (held, 0)), ("Shift", (0, held))):
        loop = Loop(spec(override=lever(action, percent=percent), **SPILL))
        loop.look(kv=0.5)
        assert loop.shares == shares


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
    assert target(of, Decision(), at) == named


SHIFTING = Decision("Normal", shift_percent=10, shift_to="old", until=START + 60)


@pytest.mark.parametrize(
    ("of", "at", "named"),
    [
        pytest.param(spec(), START, "old", id="nobody names it any more"),
        pytest.param(spec(**SPILL), START, "old", id="another is named"),
        pytest.param(spec(**SPILL), START + 60, "spill", id="gates have let go of it"),
        pytest.param(
            spec(override=lever("Shift", percent=1, to="other")), START, "other", id="a lever"
        ),
    ],
)
def test_the_target_that_is_shifted_to_stays_it_until_its_share_is_given_back(of, at, named):
    assert target(of, SHIFTING, at) == named
