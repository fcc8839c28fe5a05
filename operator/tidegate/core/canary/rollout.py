"""A rollout as it is told: where it stands, by what wishes, and how the status has it."""

from dataclasses import dataclass

from tidegate.api.rollout_status import RolloutStatus
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import State


@dataclass(frozen=True)
class Rollout:
    """The state that holds, the wishes that it is read by, and its form in the status."""

    state: State
    policy: Policy
    status: RolloutStatus
