"""The share of the requests that each revision gets, in thousandths; none without ready pods."""

from collections.abc import Mapping

from tidegate.core import names
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State

WHOLE = 1000
_ENOUGH = 0.8
"""A stable revision with this share of its replicas ready takes all requests at once: what is too
much for it waits at the gate or is turned away, for as long as the last pods take to start."""


def of(state: State, seen: Seen) -> dict[str, int]:
    """Return the shares of the revisions that can serve; they add up to 1000, or there are none."""
    serving = {name: pods.answering for name, pods in seen.pods.items() if pods.answering}
    if not serving:
        return {}
    if state.phase is Phase.CANARY and state.canary:
        return _beside(state, seen, serving)
    if state.phase is Phase.PROMOTING:
        good = {name: count for name, count in serving.items() if not _has_failed(state, name)}
        return divide(WHOLE, good or serving)
    return _back(state, seen, serving)


def _weight(state: State, seen: Seen) -> int:
    """Return the canary's weight as it is now.

    Never more than its ready pods are of all replicas, so that one pod never gets the load of two.
    """
    weight = seen.policy.weight(state.step, is_ready=state.ready_since is not None)
    ready = seen.of(state.canary).answering
    return min(weight, -(-WHOLE * ready // max(1, seen.answering_replicas)))


def _has_failed(state: State, revision: str) -> bool:
    return state.failure_of(names.original_revision(revision)) is not None


def _beside(state: State, seen: Seen, serving: Mapping[str, int]) -> dict[str, int]:
    """Give the canary its weight, its baseline as much, and the rest to stable.

    While stable is too weak for that, the others help it, its baseline among them.
    """
    canary = state.canary or ""
    others = {name: count for name, count in serving.items() if name != canary}
    if not others:
        return divide(WHOLE, serving)
    ready = serving.get(canary, 0)
    weight = _weight(state, seen) if ready else 0
    own = {canary: weight} if ready else {}
    equal = _equal(state, serving, weight)
    rest = WHOLE - weight - sum(equal.values())
    if not _is_strong(state, seen, serving, rest):
        return {**divide(WHOLE - weight, others), **own}
    return {**dict.fromkeys(others, 0), state.stable: rest, **equal, **own}


def _equal(state: State, serving: Mapping[str, int], weight: int) -> dict[str, int]:
    """Return the baseline's share beside a canary of that weight: as much for each of its pods."""
    if state.baseline is None or state.baseline not in serving or not weight:
        return {}
    for_each_pod = -(-weight * serving[state.baseline] // serving[state.canary or ""])
    return {state.baseline: min(WHOLE - weight, for_each_pod)}


def _is_strong(state: State, seen: Seen, serving: Mapping[str, int], rest: int) -> bool:
    """Say whether stable has the pods for what is left to it.

    Before the step's weights hold, a baseline may have taken the place of most stable pods: then it
    helps them, in proportion.
    """
    sides = [name for name in (state.canary, state.baseline) if name]
    beside = seen.answering_replicas - sum(serving.get(name, 0) for name in sides)
    if state.baseline in serving and state.ready_since is None:
        beside = seen.answering_replicas * rest // WHOLE
    return serving.get(state.stable, 0) >= _ENOUGH * max(1, beside)


def _back(state: State, seen: Seen, serving: Mapping[str, int]) -> dict[str, int]:
    """Give all to the stable revision; while it is too weak for that, the others help it.

    Not once it is aborted, nor for longer than a step's deadline, nor more than it had: what was
    taken back at a tenth of the requests is not given half of them. Pods of its baselines are as
    good as its own for as long as they are there.
    """
    alike = {
        name: count
        for name, count in serving.items()
        if names.original_revision(name) == state.stable
    }
    others = {name: count for name, count in serving.items() if name not in alike}
    if not alike:
        return divide(WHOLE, others)
    replicas, ready = max(1, seen.answering_replicas), sum(alike.values())
    waited = seen.now - state.since > seen.policy.deadline_seconds
    is_over = waited or state.phase is Phase.ABORTED
    borne = max(1, WHOLE * ready // replicas, _borne_at_step(state, seen, ready))
    if not others or is_over or borne >= _ENOUGH * WHOLE:
        return {**dict.fromkeys(others, 0), **divide(WHOLE, alike)}
    return {**divide(WHOLE - borne, others), **divide(borne, alike)}


def _borne_at_step(state: State, seen: Seen, ready: int) -> int:
    """Return what stable bore beside the canary, if it still has the pods that the step left it."""
    if state.phase is not Phase.ABORTING:
        return 0
    weight = seen.policy.weight(state.step, is_ready=True)
    of_canary = -(-seen.answering_replicas * weight // WHOLE)
    return WHOLE - weight if ready >= max(1, seen.answering_replicas - of_canary) else 0


def divide(whole: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Divide a whole in proportion; the parts are integers and add up exactly."""
    total = sum(counts.values())
    parts = {name: whole * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: (-(whole * counts[name] % total), name))
    for name in by_remainder[: whole - sum(parts.values())]:
        parts[name] += 1
    return parts
