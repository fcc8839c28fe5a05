"""A loop that may act and cannot: each of its actions has nothing to act with.

`actions: []` says that nothing is wanted and is not warned of.
"""

from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.overload_spec import Action, OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, warning
from tidegate.core.overload import allowed


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield the warning that the loop of a deployment will never take anything off."""
    overload = spec.overload
    stopped = [_stopped(overload, action) for action in overload.actions]
    if stopped and all(stopped):
        listed = " and ".join(overload.actions)
        yield warning(
            Reason.OVERLOAD_IDLE,
            "spec.overload.actions",
            f"actions has only {listed}, and {' and '.join(stopped)}: the loop can take nothing "
            "off",
        )


def _stopped(overload: OverloadSpec, action: Action) -> str:
    """Say why an action can take nothing off; empty where it can."""
    bounds = allowed.of_spec(overload)
    if action == "Shift":
        if overload.shift is None:
            return "shift.to is not set"
        return "" if bounds.shift else f"shift.maxPercent is {overload.shift.max_percent:g}"
    if not overload.shed.floor:
        return "shed.floor 0 spares every class"
    return "" if bounds.shed else f"shed.maxPercent is {overload.shed.max_percent:g}"
