"""The share of the requests that each revision gets, in thousandths; none without ready pods."""

from collections.abc import Mapping

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
        good = {name: count for name, count in serving.items() if not state.failure_of(name)}
        return divide(WHOLE, good or serving)
    return _back(state, seen, serving)


def _weight(state: State, seen: Seen) -> int:
    """Return the canary's weight: of its step once the pods were ready, until then of the last one.

    Never more than its ready pods are of all replicas, so that one pod never gets the load of two.
    """
    steps = seen.policy.steps
    step = min(state.step, len(steps) - 1)
    if state.ready_since is None:
        step -= 1
    if step < 0:
        return 0
    ready = seen.of(state.canary).answering
    return min(steps[step].weight, -(-WHOLE * ready // max(1, seen.answering_replicas)))


def _beside(state: State, seen: Seen, serving: Mapping[str, int]) -> dict[str, int]:
    """Give the canary its weight, and the rest to the stable revision, helped while it is weak."""
    canary, stable = state.canary or "", state.stable
    others = {name: count for name, count in serving.items() if name != canary}
    if not others:
        return divide(WHOLE, serving)
    ready = serving.get(canary, 0)
    weight = _weight(state, seen) if ready else 0
    beside = max(1, seen.answering_replicas - ready)
    if others.get(stable, 0) >= _ENOUGH * beside:
        others = {name: int(name == stable) for name in others}
    return {**divide(WHOLE - weight, others), **({canary: weight} if ready else {})}


def _back(state: State, seen: Seen, serving: Mapping[str, int]) -> dict[str, int]:
    """Give all to the stable revision; while it is too weak for that, the others help it.

    Not once it is aborted, nor for longer than a step's deadline.
    """
    stable, replicas = state.stable, max(1, seen.answering_replicas)
    others = {name: count for name, count in serving.items() if name != stable}
    if stable not in serving:
        return divide(WHOLE, others)
    waited = seen.now - state.since > seen.policy.deadline_seconds
    is_over = waited or state.phase is Phase.ABORTED
    if not others or is_over or serving[stable] >= _ENOUGH * replicas:
        return {**dict.fromkeys(others, 0), stable: WHOLE}
    strength = max(1, WHOLE * serving[stable] // replicas)
    return {**divide(WHOLE - strength, others), stable: strength}


def divide(whole: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Divide a whole in proportion; the parts are integers and add up exactly."""
    total = sum(counts.values())
    parts = {name: whole * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: (-(whole * counts[name] % total), name))
    for name in by_remainder[: whole - sum(parts.values())]:
        parts[name] += 1
    return parts
