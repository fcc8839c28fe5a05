"""How many pods each revision is to have in each pool, as the state wants it."""

from collections.abc import Mapping

from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State

Targets = Mapping[str, Mapping[str, int]]
"""Pods by revision and pool; a revision that is not in it is to have none."""

_WHOLE = 1000


def of(state: State, seen: Seen) -> Targets:
    """Return the pods that each revision is to have in the end, if the state stays as it is."""
    if state.canary is None or state.phase in (Phase.SETTLED, Phase.PROMOTING):
        return {state.winner: seen.full}
    if state.phase is Phase.CANARY:
        canary = of_step(state, seen)
        return {state.stable: _beside(canary, seen), state.canary: canary}
    return {state.stable: seen.full, state.canary: _kept(state, seen)}


def of_step(state: State, seen: Seen) -> dict[str, int]:
    """Return the canary's pods by pool: its share of each, at least one of both halves of a pair.

    A share of the requests needs that share of the pods, or the canary is judged under a load
    that it will never have.
    """
    weight = seen.policy.steps[min(state.step, len(seen.policy.steps) - 1)].weight
    return {
        name: min(pool.replicas, max(1, -(-pool.replicas * weight // _WHOLE)))
        for name, pool in seen.pools.items()
    }


def _beside(canary: Mapping[str, int], seen: Seen) -> dict[str, int]:
    """Return the stable pods: all, or as many as the canary leaves; one of each pool always.

    With one replica and nothing extra there is no room for both, and the canary waits for it.
    """
    return {
        name: min(pool.replicas, max(1, pool.replicas + pool.extra - canary[name]))
        for name, pool in seen.pools.items()
    }


def _kept(state: State, seen: Seen) -> dict[str, int]:
    """Return the pods of a failed revision that stay to be looked at: none that stable needs."""
    if seen.now - state.since >= seen.policy.keep_failed_seconds:
        return dict.fromkeys(seen.pools, 0)
    asked = seen.of(state.canary).asked
    return {name: min(asked.get(name, 0), pool.extra) for name, pool in seen.pools.items()}
