"""Clocks that do not agree: a leader whose clock was ahead has left times that are not yet.

Nothing has happened in the future. What is said of it would hold a rollout up until then.
"""

from dataclasses import replace

from tidegate.core.canary.state import State


def not_ahead(state: State, now: float) -> State:
    """Return the state as if what is told of the future had happened now.

    Looks and evidence from there are none: whoever looks next looks at once, and evidence that
    begins anew has less of the error rate.
    """
    kept = replace(
        state,
        since=min(state.since, now),
        ready_since=_not_after(now, state.ready_since),
        doubtful_since=_not_after(now, state.doubtful_since),
        paused_since=_not_after(now, state.paused_since),
        stable_down_since=_not_after(now, state.stable_down_since),
        judged_since=_unless_after(now, state.judged_since),
        looked_at=_unless_after(now, state.looked_at),
    )
    if state.evidence_since is None or state.evidence_since <= now:
        return kept
    again = replace(kept, evidence_since=None, judged_since=None, requests=0)
    return replace(again, stretch=state.stretch + 1)


def _not_after(now: float, at: float | None) -> float | None:
    return None if at is None else min(at, now)


def _unless_after(now: float, at: float | None) -> float | None:
    return None if at is None or at > now else at
