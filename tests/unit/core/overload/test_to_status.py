"""What the status shows of a decision, and that a restart forgets nothing of it."""

import pytest
from hypothesis import given

from tidegate.api.overload_status import OverloadStatus
from tidegate.core.overload import to_status
from tidegate.core.overload.decision import Decision, Headroom

from .loops import START, Loop, lever, spec
from .test_laws import SERIES, SPECS, run


def test_the_status_shows_what_holds_and_why():
    loop = Loop(spec(shift={"to": "spill", "maxPercent": 30}))
    loop.looks(2, kv=0.97, age=2)

    assert to_status.make(loop.decision).wire() == {
        "summary": "shift 30%, shed 10%",
        "state": "Overloaded",
        "shedPercent": 10,
        "shiftPercent": 30,
        "shiftTo": "spill",
        "reason": "OverThreshold",
        "message": "kvUsage of pool decode is 0.97, over enter 0.90: 30 % of the requests are "
        "served by spill and 10 % are turned away",
        "because": [
            "kvUsage of pool decode is 0.97, over enter 0.90: pressure 85 %",
        ],
        "signal": "kvUsage",
        "pool": "decode",
        "value": "0.97",
        "metricAge": "2s",
        "since": "2027-01-15T08:00:05Z",
        "changedAt": "2027-01-15T08:00:10Z",
        "until": "2027-01-15T08:01:05Z",
    }


def test_the_status_shows_the_lever_that_holds():
    of = spec(override=lever("Shed", percent=30, setBy="jo"))
    made = Loop(of).look(kv=0.1)

    shown = to_status.make(made, of.override)

    assert shown.summary == "override: shed 30%"
    assert shown.override.wire() == {
        "action": "Shed",
        "until": "2027-01-15T08:10:00Z",
        "reason": "INC-1",
        "setBy": "jo",
    }


def test_the_status_shows_a_lever_that_is_refused_and_what_the_loop_does_instead():
    of = spec(actions=["Shed"], override=lever("Shift", percent=30, to="gone"))
    made = Loop(of).look(kv=0.97, headroom=Headroom(False))

    shown = to_status.make(made, of.override)

    assert (shown.summary, shown.state) == ("override: shift refused, shed 20%", "Overloaded")
    assert shown.override.refused == "gone is not there, or has no gate that serves"
    assert to_status.restore(shown) == made


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(refused="gone is not there"), "override: shift refused"),
        (Decision(), "Normal"),
        (Decision("Overloaded"), "Overloaded"),
        (Decision("Overloaded", shed_percent=20), "shed 20%"),
        (Decision("Override"), "override: open"),
    ],
)
def test_the_printer_column_says_it_in_a_few_words(decision, words):
    assert to_status.summary(decision) == words


@given(SPECS, SERIES)
def test_a_restart_writes_nothing_and_keeps_what_holds(of, series):
    loop = run(of, series)
    stored = to_status.make(loop.decision)

    restored = to_status.restore(OverloadStatus.model_validate(stored.wire(), by_alias=True))

    assert to_status.make(restored) == stored
    assert restored == loop.decision


def test_an_operator_that_starts_in_an_overload_goes_on_from_the_shares_that_hold():
    loop = Loop(spec(actions=["Shed"]))
    loop.looks(3, kv=1.0)
    restored = to_status.restore(to_status.make(loop.decision))
    after = Loop(spec(actions=["Shed"]), previous=restored)
    after.now = loop.now

    assert after.look(kv=0.85) is restored


def test_shares_that_lapsed_while_no_operator_was_there_are_built_up_anew():
    before = Decision("Overloaded", shed_percent=80, since=START - 900, until=START - 600)

    loop = Loop(spec(actions=["Shed"]), previous=before)

    assert loop.look(kv=1.0).shed_percent == 20


def test_what_another_version_wrote_is_read_as_far_as_it_is_known():
    stored = OverloadStatus(
        summary="shed 10%",
        state="Overloaded",
        shed_percent=10,
        shift_percent=0,
        reason="SomethingNew",
        message="",
        signal="queueLength",
        value="many",
        metric_age="long",
        since="yesterday",
    )

    assert to_status.restore(stored) == Decision("Overloaded", shed_percent=10)


def test_without_a_status_nothing_was_decided():
    assert to_status.restore(None) == Decision()
