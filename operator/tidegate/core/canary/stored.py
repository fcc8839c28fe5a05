"""A rollout as a stored resource tells it: whoever reads one must bear those of other versions."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tidegate.api import llmdeployment
from tidegate.api.rollout_status import RolloutStatus
from tidegate.core.canary import policy, record
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import State
from tidegate.errors import Invalid


def state(resource: Mapping[str, Any]) -> State | None:
    """Return the state that the status tells; None for none, and for one that cannot be read."""
    told = (resource.get("status") or {}).get("rollout")
    try:
        return record.from_status(RolloutStatus.model_validate(told)) if told else None
    except ValidationError:
        return None


def wishes(resource: Mapping[str, Any]) -> Policy | None:
    """Return what the spec wants of a rollout under way; None where it cannot be read."""
    try:
        return policy.of(llmdeployment.parse_spec(dict(resource)), can_judge=True)
    except Invalid:
        return None
