"""The conditions of a rollout: Promoted, CanaryHealthy, Progressing."""

from dataclasses import dataclass

from tidegate.api.conditions import ConditionType, Status
from tidegate.api.reasons import Reason
from tidegate.core.canary import tell
from tidegate.core.canary.rollout import Rollout
from tidegate.core.canary.state import Phase, State
from tidegate.core.status.conditions import Verdict


def verdicts(rollout: Rollout | None) -> list[Verdict]:
    """Return what the conditions of a rollout are to say; nothing where none was decided on."""
    if rollout is None:
        return []
    state, policy = rollout.state, rollout.policy
    says, why = tell.message(state, policy), tell.reason(state)
    is_settled = state.phase is Phase.SETTLED
    moves: Status = "False" if is_settled or tell.waits(state) else "True"
    return [
        Verdict(ConditionType.PROMOTED, "True" if is_settled else "False", why, says),
        _health(state, says),
        Verdict(ConditionType.PROGRESSING, moves, why, says),
    ]


@dataclass(frozen=True)
class Paced:
    """A rollout that is not over and goes by its own clock."""

    reason: Reason
    message: str
    is_final: bool


def unfinished(rollout: Rollout | None) -> Paced | None:
    """Return what is left to be done where steps decide on it, None where only pods do.

    What is paused is under way; what was taken back or has no verdict waits for somebody.
    """
    if rollout is None or rollout.state.phase in (Phase.SETTLED, Phase.PROMOTING):
        return None
    state, is_paused = rollout.state, rollout.state.paused_since is not None
    is_final = state.phase is not Phase.CANARY or (tell.waits(state) and not is_paused)
    return Paced(tell.reason(state), tell.message(state, rollout.policy), is_final)


def _health(state: State, says: str) -> Verdict:
    kind = ConditionType.CANARY_HEALTHY
    if state.phase in (Phase.ABORTING, Phase.ABORTED):
        return Verdict(kind, "False", Reason.ROLLOUT_ABORTED, says)
    if state.phase is not Phase.CANARY:
        return Verdict(kind, "Unknown", Reason.NO_CANARY, "There is no canary.")
    if state.verdicts.passed and state.doubtful_since is None:
        return Verdict(kind, "True", Reason.CANARY_RUNNING, says)
    return Verdict(kind, "Unknown", tell.reason(state), says)
