"""The state as `status.rollout` has it, and back: whole seconds, so that a state survives as it is.

`rounded` is what is acted upon: a state must not be finer than what a restart finds.
"""

from tidegate.api.rollout_status import (
    FailedRevision,
    LeavingRevision,
    RolloutStatus,
    VerdictCounts,
)
from tidegate.core.canary import tell
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import Failed, Leaving, Phase, State, Verdicts
from tidegate.core.status.conditions import clipped, format_time, parse_time

_LINE = 1024
_SUMMARY = 128


def to_status(state: State, policy: Policy) -> RolloutStatus:
    """Return the state as the status tells it."""
    return RolloutStatus(
        summary=clipped(tell.summary(state, policy), _SUMMARY),
        phase=state.phase.value,
        stable=state.stable,
        canary=state.canary,
        baseline=state.baseline,
        step=state.step,
        step_since=format_time(state.since),
        ready_since=_time(state.ready_since),
        evidence_since=_time(state.evidence_since),
        judged_since=_time(state.judged_since),
        looked_at=_time(state.looked_at),
        requests=state.requests,
        stretch=state.stretch,
        verdicts=VerdictCounts(
            passed=state.verdicts.passed,
            inconclusive=state.verdicts.inconclusive,
            errors=state.verdicts.errors,
        ),
        inconclusive_since=_time(state.doubtful_since),
        paused_since=_time(state.paused_since),
        stable_down_since=_time(state.stable_down_since),
        is_judged=state.is_judged,
        because=clipped(state.because, _LINE),
        failed=[
            FailedRevision(
                revision=entry.revision,
                at=format_time(entry.at),
                because=clipped(entry.because, _LINE),
            )
            for entry in state.failed
        ],
        leaving=[
            LeavingRevision(revision=entry.revision, share=entry.share) for entry in state.leaving
        ],
        token=state.token,
    )


def from_status(status: RolloutStatus) -> State:
    """Return the state that a status tells."""
    return State(
        phase=Phase(status.phase),
        stable=status.stable,
        since=parse_time(status.step_since) or 0.0,
        canary=status.canary,
        baseline=status.baseline,
        step=status.step,
        ready_since=parse_time(status.ready_since),
        evidence_since=parse_time(status.evidence_since),
        judged_since=parse_time(status.judged_since),
        looked_at=parse_time(status.looked_at),
        requests=status.requests,
        stretch=status.stretch,
        verdicts=Verdicts(
            status.verdicts.passed, status.verdicts.inconclusive, status.verdicts.errors
        ),
        doubtful_since=parse_time(status.inconclusive_since),
        paused_since=parse_time(status.paused_since),
        stable_down_since=parse_time(status.stable_down_since),
        is_judged=status.is_judged,
        because=status.because,
        failed=tuple(
            Failed(entry.revision, parse_time(entry.at) or 0.0, entry.because)
            for entry in status.failed
        ),
        leaving=tuple(Leaving(entry.revision, entry.share) for entry in status.leaving),
        token=status.token,
    )


def rounded(state: State, policy: Policy) -> State:
    """Return the state as it is after it was stored and read."""
    return from_status(to_status(state, policy))


def _time(at: float | None) -> str | None:
    return None if at is None else format_time(at)
