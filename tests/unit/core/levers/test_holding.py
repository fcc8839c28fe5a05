"""A lever holds once the operator has taken it over and the gates show it; no sooner."""

import pytest

from tidegate.core.levers import holding
from tidegate.core.levers.holding import Shown

LEVER = {"action": "Shed", "percent": 30, "until": "2026-11-30T03:00:00Z", "reason": "INC-1"}
TAKEN = {
    "state": "Override",
    "shedPercent": 30,
    "shiftPercent": 0,
    "message": "30 % are turned away",
    "until": "2026-11-30T03:01:00Z",
    "override": {**LEVER, "setBy": "robin"},
}
SHEDS, OPEN, SILENT = Shown("a", 30.0, 0.0), Shown("b", 0.0, 0.0), Shown("c")


@pytest.mark.parametrize(
    ("overload", "gates", "holds", "told"),
    [
        (TAKEN, [SHEDS], True, "The gates apply it."),
        (TAKEN, [SHEDS, SILENT], None, "1 of 2 gates apply it; 1 gives no answer (c)."),
        (TAKEN, [SHEDS, OPEN], False, "1 of 2 gates apply it yet. The operator says: 30 %"),
        (TAKEN, [SILENT], False, "No gate applies it yet; 1 gives no answer (c)."),
        (TAKEN, [], False, "No gate applies it yet. The operator says"),
        (TAKEN, None, None, "The operator has taken it over. Whether the gates apply it is"),
        (TAKEN, [Shown("a", 30.4, 0.0)], False, "No gate applies it yet"),
        ({}, [SHEDS], False, "No gate applies it yet: no operator has taken it over. The gates"),
        ({}, None, False, "No gate applies it yet: no operator has taken it over."),
    ],
)
def test_a_lever_holds_by_what_operator_and_gates_tell(overload, gates, holds, told):
    found = holding.of_lever(LEVER, overload, gates)

    assert found.holds is holds
    assert found.told.startswith(told)


@pytest.mark.parametrize(
    "changes",
    [{"until": "2026-11-30T02:59:59Z"}, {"reason": "INC-0"}, {"action": "Shift"}],
)
def test_the_lever_before_is_not_taken_for_this_one(changes):
    overload = {**TAKEN, "override": {**TAKEN["override"], **changes}}
    found = holding.of_lever(LEVER, overload, [SHEDS])

    assert found.holds is False
    assert "still turn away 30 % until 2026-11-30T03:01:00Z" in found.told


def test_a_lever_that_the_operator_refuses_is_said_to_be_so_at_once():
    overload = {**TAKEN, "override": {**TAKEN["override"], "refused": "west is not there"}}
    found = holding.of_lever(LEVER, overload, [OPEN])

    assert (found.holds, found.is_over) == (False, True)
    assert "the operator refuses it, for west is not there" in found.told


NORMAL = {"state": "Normal", "shedPercent": 0, "shiftPercent": 0}
GIVING_BACK = {"state": "Overloaded", "shedPercent": 20, "shiftPercent": 0}


@pytest.mark.parametrize(
    ("overload", "gates", "holds", "told"),
    [
        (NORMAL, [OPEN], True, "The loop decides: shed 0 %, shift 0 % now."),
        (GIVING_BACK, [Shown("a", 20.0, 0.0)], True, "The loop decides: shed 20 %"),
        (GIVING_BACK, [SHEDS], False, "No operator carries it out yet. The gates still turn away"),
        (NORMAL, [OPEN, SILENT], None, "The loop decides: shed 0 %, shift 0 % now; 1 gives no"),
        (NORMAL, None, None, "The loop decides again. Whether the gates follow is unknown"),
        (
            TAKEN,
            [SHEDS],
            False,
            "No operator carries it out yet. The gates still turn away 30 % un",
        ),
        ({**TAKEN, "shedPercent": 0}, [OPEN], False, "No operator carries it out yet. The loop"),
        ({}, [SHEDS], False, "No operator carries it out yet. The gates still turn away 30 % un"),
        ({}, [OPEN], True, "The loop decides"),
    ],
)
def test_letting_go_is_over_once_the_loop_decides_and_the_gates_follow(
    overload, gates, holds, told
):
    found = holding.of_letting_go(overload, gates)

    assert found.holds is holds
    assert found.told.startswith(told)
