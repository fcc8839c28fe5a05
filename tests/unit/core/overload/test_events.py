"""An Event tells a turn: of the state, of the direction, of where requests go, of a lever."""

import pytest

from tidegate.api.overload_status import OverloadStatus
from tidegate.core.overload import events


def status(**changes) -> OverloadStatus:
    base = {
        "summary": "Normal",
        "state": "Normal",
        "shedPercent": 0,
        "shiftPercent": 0,
        "reason": "WithinThresholds",
        "message": "no pool is over",
    }
    return OverloadStatus.model_validate({**base, **changes})


def over(shed: int, **changes) -> OverloadStatus:
    return status(
        **{"state": "Overloaded", "shedPercent": shed, "reason": "OverThreshold", **changes}
    )


def lever(message: str, shed: int = 40) -> OverloadStatus:
    return status(state="Override", shedPercent=shed, reason="OverrideActive", message=message)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, over(20), "Warning"),
        (status(), over(0), "Warning"),
        (over(0), over(20), "Warning"),
        (over(60), over(50, reason="LettingGo"), "Normal"),
        (over(50, reason="LettingGo"), over(70), "Warning"),
        (over(10, reason="LettingGo"), status(), "Normal"),
        (over(20), over(20, shiftPercent=10, shiftTo="other"), "Warning"),
        (over(20), lever("Open set by me", shed=0), "Warning"),
        (lever("Shed set by me"), lever("Shed set by you"), "Warning"),
        (lever("Shed set by me"), status(), "Normal"),
        (lever("Shed set by me"), None, "Normal"),
    ],
)
def test_a_turn_is_told_with_the_reason_of_what_holds_now(before, after, kind):
    event = events.between(before, after)

    assert event.kind == kind
    assert event.reason == (after.reason if after else "WithinThresholds")
    assert event.message


def test_a_lever_that_is_refused_is_a_warning_of_its_own():
    refused = {"action": "Shift", "until": "2026-11-30T00:00:00Z", "reason": "INC-1"}
    refused["refused"] = "gone is not there"
    held = over(20, override=refused)

    event = events.between(over(20), held)

    assert (event.kind, event.reason) == ("Warning", "OverrideRefused")
    assert events.between(held, over(40, override=refused, message="kvUsage is 0.98")) is None
    assert events.between(held, over(20)).reason == "OverThreshold"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        (None, status()),
        (status(), None),
        (status(), status(message="no pool is over 0.8")),
        (status(), status(reason="OverloadOff")),
        (status(), status(reason="MetricsStale", message="nothing is known")),
        (status(reason="MetricsStale", message="nothing is known"), status()),
        (over(20), over(40, message="kvUsage is 0.98")),
        (over(60, reason="LettingGo"), over(50, reason="LettingGo")),
        (over(20), over(20, until="2026-11-30T00:00:00Z")),
        (lever("Shed set by me"), lever("Shed set by me")),
    ],
)
def test_going_on_is_not(before, after):
    assert events.between(before, after) is None
