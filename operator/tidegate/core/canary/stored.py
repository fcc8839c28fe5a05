"""A rollout as a stored resource tells it: whoever reads one must bear those of other versions."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tidegate.api import llmdeployment, stored
from tidegate.api.reasons import Reason
from tidegate.api.rollout_status import RolloutStatus
from tidegate.core.canary import policy, record
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import State
from tidegate.errors import Invalid, Refused


def require(resource: Mapping[str, Any]) -> State | None:
    """Return the state that the status tells, None for none; what is unknown in it is left out.

    Raises:
        Refused: ROLLOUT_UNREADABLE, for what goes on from another state may promote what failed.
    """
    told = (resource.get("status") or {}).get("rollout")
    try:
        return record.from_status(stored.read(RolloutStatus, told)) if told else None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, ("status", "rollout", *fault["loc"])))
        raise Refused(
            Reason.ROLLOUT_UNREADABLE,
            f"{where}: this version cannot read it ({fault['msg']}), so nothing of the rollout is "
            "decided: run the version that wrote it, or remove status.rollout to begin anew from "
            "the pods that are there",
        ) from None


def state(resource: Mapping[str, Any]) -> State | None:
    """Return the state that the status tells; None for none, and for one that cannot be read."""
    try:
        return require(resource)
    except Refused:
        return None


def wishes(resource: Mapping[str, Any]) -> Policy | None:
    """Return what the spec wants of a rollout under way; None where it cannot be read."""
    try:
        return policy.of(llmdeployment.parse_spec(dict(resource)), can_judge=True)
    except Invalid:
        return None
