"""When a rollout is to be looked at again, though nothing has happened."""

from tidegate.core.canary import steps
from tidegate.core.canary.begin import STABLE_DOWN_SECONDS
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State

_LEAST_SECONDS = 1.0


def again_seconds(state: State, seen: Seen) -> float | None:
    """Return after how many seconds the clock alone may change something; None: never."""
    times = [at for at in _times(state, seen) if at is not None and at > seen.now]
    return max(_LEAST_SECONDS, min(times) - seen.now) if times else None


def _times(state: State, seen: Seen) -> list[float | None]:
    policy = seen.policy
    if state.phase is Phase.ABORTING:
        return [state.since + policy.deadline_seconds]
    if state.phase is Phase.ABORTED:
        return [state.since + policy.keep_failed_seconds]
    if state.phase is not Phase.CANARY:
        return []
    step = seen.policy.at(state.step)
    down, ready = state.stable_down_since, state.ready_since
    looked = state.looked_at if step.is_judged and ready is not None else None
    return [
        state.since + policy.longest_seconds(step),
        ready + step.seconds if ready is not None and not step.is_judged else None,
        steps.warm_at(state, seen) if ready is not None else None,
        looked + step.look_seconds if looked is not None else None,
        down + STABLE_DOWN_SECONDS if down is not None else None,
    ]
