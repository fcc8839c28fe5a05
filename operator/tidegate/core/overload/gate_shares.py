"""The shares of a decision as gates are told them."""

from datetime import UTC, datetime

from tidegate.api.gate_config import ShedShare, ShiftShare
from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload.decision import Decision


def shed(decision: Decision, spec: OverloadSpec) -> ShedShare | None:
    """Return what is turned away; None where nothing is.

    Without a reason: clients are not told of numbers, or of why a person did it, and a constant
    of the operator's says nothing to them.
    """
    if not decision.shed_percent:
        return None
    return ShedShare(
        percent=float(decision.shed_percent),
        until=_until(decision),
        floor=spec.shed.floor,
    )


def shift(decision: Decision, port: int) -> ShiftShare | None:
    """Return what another deployment serves, whose gates' Service listens on a port; or None."""
    if not decision.shift_percent:
        return None
    return ShiftShare(
        to=decision.shift_to,
        percent=float(decision.shift_percent),
        until=_until(decision),
        port=port,
    )


def _until(decision: Decision) -> datetime | None:
    return datetime.fromtimestamp(decision.until, UTC) if decision.until else None
