"""What is said of a rollout: a few words, a sentence, an Event for each transition."""

from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import Phase, State


@dataclass(frozen=True)
class Said:
    """Something worth an Event; a warning where somebody should look."""

    reason: Reason
    message: str
    is_warning: bool = False


def summary(state: State, policy: Policy) -> str:
    """Return where it stands, in a few words: `2/3 25%`, `Aborted: ...`."""
    match state.phase:
        case Phase.SETTLED:
            return "Settled"
        case Phase.PROMOTING:
            return "Promoting"
        case Phase.ABORTING | Phase.ABORTED:
            return f"{state.phase.value}: {state.because}"
    step = f"{_at(state, policy)} {weight_percent(state, policy)}%"
    if state.paused_since is not None:
        return f"{step} paused"
    return f"{step} inconclusive" if state.doubtful_since is not None else step


def weight_percent(state: State, policy: Policy) -> int:
    """Return the canary's weight in percent; 0 until the pods of the first step are ready."""
    return policy.weight(state.step, is_ready=state.ready_since is not None) // 10


def _at(state: State, policy: Policy) -> str:
    return f"{min(state.step + 1, len(policy.steps))}/{len(policy.steps)}"


def message(state: State, policy: Policy) -> str:
    """Return where it stands in a sentence, with what to do where somebody must."""
    canary, stable = state.canary, state.stable
    match state.phase:
        case Phase.SETTLED:
            return f"Revision {stable} has all requests."
        case Phase.PROMOTING:
            why = f" ({state.because})" if state.because else ""
            return f"Revision {canary} replaces all others{why}."
        case Phase.ABORTING | Phase.ABORTED:
            return (
                f"Revision {canary} was taken back: {state.because}. Revision {stable} serves; "
                "change the spec, or retry."
            )
    at = f"Revision {canary} is at step {_at(state, policy)}"
    if state.paused_since is not None and not policy.is_paused:
        return f"{at}, paused: no replicas are wanted; it goes on with its pods when some are."
    if state.paused_since is not None:
        return f"{at}, paused: set rollout.paused to false to go on."
    if state.doubtful_since is not None:
        then = "It goes on by itself when data comes; else promote or abort."
        return f"{at} without a verdict: {state.because}. {then}"
    if state.ready_since is None:
        others = " and those of its baseline" if state.baseline else ""
        return f"{at} and waits for its pods{others}."
    percent = f"with {weight_percent(state, policy)} % of the requests"
    percent += ", beside its baseline" if state.baseline else ""
    return f"{at} {percent}{': ' + state.because if state.because else ''}."


def waits(state: State) -> bool:
    """Say whether nothing goes on by itself."""
    is_held = state.paused_since is not None or state.doubtful_since is not None
    return state.phase is Phase.ABORTED or (state.phase is Phase.CANARY and is_held)


def reason(state: State) -> Reason:
    """Return the reason of where it stands."""
    match state.phase:
        case Phase.SETTLED:
            return Reason.PROMOTED
        case Phase.PROMOTING:
            return Reason.PROMOTING
        case Phase.ABORTING | Phase.ABORTED:
            return Reason.ROLLOUT_ABORTED
    if state.paused_since is not None:
        return Reason.ROLLOUT_PAUSED
    return Reason.CANARY_INCONCLUSIVE if state.doubtful_since is not None else Reason.CANARY_RUNNING


def transition(before: State | None, after: State, policy: Policy) -> Said | None:
    """Return what is worth an Event between two states, None where nothing is."""
    if before is None:
        return None
    same_phase = (before.phase, before.canary) == (after.phase, after.canary)
    same_step = before.step == after.step
    was, now = reason(before), reason(after)
    if same_phase and same_step and was is now:
        return None
    warns = now in (Reason.ROLLOUT_ABORTED, Reason.CANARY_INCONCLUSIVE)
    if before.phase is Phase.ABORTING and after.phase is Phase.ABORTED:
        return None  # it was said when it was taken back
    return Said(now, message(after, policy), warns)
