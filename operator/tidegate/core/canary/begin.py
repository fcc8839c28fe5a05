"""How a rollout begins: as a canary, or unjudged for a reason that is said, or not at all."""

from dataclasses import replace

from tidegate.core import names
from tidegate.core.canary import steps, targets
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State

STABLE_DOWN_SECONDS = 120.0
"""How long no stable pod can serve before another revision is taken unjudged: longer than a restart
of a container, shorter than anybody would wait for the fix that it may be."""


def from_pods(seen: Seen) -> State:
    """Return the state of a deployment that has none: it is new, or its status was lost.

    What runs there beside the wanted revision is stable. What the wanted one was before is not
    known: with no more pods than a step has it is a canary at that step, and judged anew.
    """
    older = {
        name: pods
        for name, pods in seen.pods.items()
        if name != seen.wanted and pods.live and not names.is_baseline(name)
    }
    if not older:
        return State(Phase.SETTLED, seen.wanted, seen.now)
    best = max(older, key=lambda name: (seen.strength(name), name))
    before = State(Phase.SETTLED, best, seen.now)
    begun, step = of(before, seen), _step_of_pods(seen)
    if begun.phase is Phase.CANARY and step is not None:
        return steps.with_pods(replace(begun, step=step), seen)
    if seen.of(seen.wanted).live:
        return before.in_phase(Phase.PROMOTING, seen.now, "it was under way", seen.wanted)
    return begun


def _step_of_pods(seen: Seen) -> int | None:
    """Return the first step that has as many pods as the wanted revision, None where none has."""
    asked = seen.of(seen.wanted).asked
    for number, step in enumerate(seen.policy.steps):
        if all(
            asked.get(name, 0) <= targets.of_weight(step.weight, pool.replicas)
            for name, pool in seen.pools.items()
        ):
            return number
    return None


def of(state: State, seen: Seen) -> State:
    """Return the state in which the wanted revision begins to be rolled out."""
    wanted, now = seen.wanted, seen.now
    fresh = replace(state, stretch=1, step=0, is_judged=False)
    if seen.policy.strategy != "Canary":
        return fresh.in_phase(Phase.PROMOTING, now, f"rolled out as {seen.policy.strategy}", wanted)
    failed = state.failure_of(wanted)
    if failed is not None:
        return fresh.in_phase(Phase.ABORTING, now, f"it was tried before: {failed.because}", wanted)
    because = _why_not_compared(state, seen)
    if because:
        return fresh.in_phase(Phase.PROMOTING, now, because, wanted)
    return State(
        Phase.CANARY,
        state.stable,
        now,
        canary=wanted,
        baseline=baseline(state.stable, wanted, seen),
        stable_down_since=state.stable_down_since,
        failed=state.failed,
        token=state.token,
    )


def baseline(stable: str, canary: str, seen: Seen) -> str | None:
    """Return the revision of fresh stable pods that a canary is to have beside it, if any."""
    return names.baseline_revision(stable, canary) if seen.policy.has_baseline else None


def _why_not_compared(state: State, seen: Seen) -> str:
    """Return why a canary makes no sense here, empty where it does.

    That stable serves nobody at this moment is no reason: its only pod may have been restarted.
    """
    stable = seen.of(state.stable).pools
    wanted = frozenset(name for name, pool in seen.pools.items() if pool.replicas)
    if not stable or not wanted:
        return "taken without an analysis: there are no pods to compare"
    if is_down(state, seen):
        return f"taken without an analysis: revision {state.stable} serves nobody"
    if not stable <= wanted:
        return "taken without an analysis: gates serve by one mode of pools at a time"
    return ""


def is_down(state: State, seen: Seen) -> bool:
    """Say whether stable has served nobody for longer than a restart takes."""
    down = state.stable_down_since
    return down is not None and seen.now - down >= STABLE_DOWN_SECONDS
