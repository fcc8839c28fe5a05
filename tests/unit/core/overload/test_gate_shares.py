"""What gates are told of a decision: the share, when it lapses, whom it spares."""

import pytest

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import gate_shares
from tidegate.core.overload.decision import Decision

SPEC = OverloadSpec.model_validate({"shed": {"floor": 7}})


def test_a_shed_lapses_by_itself_and_spares_the_classes_from_the_floor_up():
    share = gate_shares.shed(
        Decision(shed_percent=30, until=1_800_000_060.0, reason=Reason.OVER_THRESHOLD), SPEC
    )

    assert (share.percent, share.floor) == (30, 7)
    assert share.until.timestamp() == 1_800_000_060


@pytest.mark.parametrize("reason", [Reason.OVER_THRESHOLD, Reason.METRICS_MISSING])
def test_clients_are_not_told_a_word_of_the_operators(reason):
    share = gate_shares.shed(Decision(shed_percent=30, until=1.0, reason=reason), SPEC)

    assert share.reason == ""


def test_a_shift_names_the_deployment_and_the_port_of_its_gates():
    share = gate_shares.shift(Decision(shift_percent=10, shift_to="other", until=1.0), 8000)

    assert (share.to, share.percent, share.port) == ("other", 10, 8000)


@pytest.mark.parametrize("decision", [Decision(), Decision(shift_to="other", until=9.0)])
def test_no_share_is_none(decision):
    assert gate_shares.shed(decision, SPEC) is None
    assert gate_shares.shift(decision, 80) is None
