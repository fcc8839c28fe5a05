"""How many pods each revision is to have in each pool, as the state wants it."""

from collections.abc import Mapping

from tidegate.core import names
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State

Targets = Mapping[str, Mapping[str, int]]
"""Pods by revision and pool; a revision that is not in it is to have none."""

WHOLE = 1000


def of(state: State, seen: Seen) -> Targets:
    """Return the pods that each revision is to have in the end, if the state stays as it is."""
    if state.canary is None or state.phase in (Phase.SETTLED, Phase.PROMOTING):
        return {state.winner: seen.full}
    if state.phase is Phase.CANARY:
        return _compared(state, state.canary, seen)
    return _taken_back(state, state.canary, seen)


def of_step(state: State, seen: Seen) -> dict[str, int]:
    """Return the canary's pods by pool: its share of each, at least one of both halves of a pair.

    A share of the requests needs that share of the pods, or the canary is judged under a load
    that it will never have.
    """
    weight = _weight(state, seen)
    return {name: of_weight(weight, pool.replicas) for name, pool in seen.pools.items()}


def of_weight(weight: int, replicas: int) -> int:
    """Return the pods of a canary that gets a weight, in thousandths, of a pool's requests."""
    return min(replicas, max(1, -(-replicas * weight // WHOLE)))


def of_baseline(state: State, seen: Seen) -> dict[str, int]:
    """Return the baseline's pods by pool: as many as the canary's; empty where none is wanted.

    Fewer where the weight leaves no requests for as many, or the GPUs no place beside one pod of
    stable; never none.
    """
    if state.baseline is None:
        return {}
    return _equal_to(of_step(state, seen), state, seen)


def _equal_to(canary: Mapping[str, int], state: State, seen: Seen) -> dict[str, int]:
    """Return the pods of a baseline that get the same load each as those of a canary."""
    weight = _weight(state, seen)
    return {
        name: max(
            1,
            min(
                canary[name],
                -(-canary[name] * (WHOLE - weight) // weight),
                pool.replicas + pool.extra - canary[name] - 1,
            ),
        )
        for name, pool in seen.pools.items()
    }


def _weight(state: State, seen: Seen) -> int:
    return seen.policy.at(state.step).weight


def _compared(state: State, revision: str, seen: Seen) -> Targets:
    """Return the pods of a step: of both sides what fits in, and of stable what that leaves."""
    canary = of_step(state, seen)
    if state.baseline is None:
        return {state.stable: _beside(canary, seen), revision: canary}
    canary = _with_place_for_two(canary, seen)
    has_any = any(canary.values())
    baseline = _equal_to(canary, state, seen) if has_any else dict.fromkeys(canary, 0)
    both = {name: count + baseline[name] for name, count in canary.items()}
    return {state.stable: _beside(both, seen), revision: canary, state.baseline: baseline}


def _with_place_for_two(canary: Mapping[str, int], seen: Seen) -> dict[str, int]:
    """Return the canary's pods that leave place for a pod of the baseline and one of stable.

    None at all where a pool has no such place: a canary without its baseline proves nothing, so no
    stable pod gives way for it.
    """
    fitting = {
        name: min(canary[name], pool.replicas + pool.extra - 2) for name, pool in seen.pools.items()
    }
    is_possible = all(count >= 1 for count in fitting.values())
    return fitting if is_possible else dict.fromkeys(fitting, 0)


def _beside(taken: Mapping[str, int], seen: Seen) -> dict[str, int]:
    """Return the stable pods: all, or as many as the others leave; one of each pool always.

    With one replica and nothing extra there is no room for both, and the canary waits for it.
    """
    return {
        name: min(pool.replicas, max(1, pool.replicas + pool.extra - taken[name]))
        for name, pool in seen.pools.items()
    }


def _taken_back(state: State, revision: str, seen: Seen) -> Targets:
    """Return the pods after a failure: all of stable, and of the failed ones what may be kept.

    Until stable is at strength its baseline counts for it, so that the failed pods give way first.
    """
    kept = _kept(state, revision, seen)
    name = names.baseline_revision(state.stable, revision)
    baseline = seen.of(name)
    helping = {
        pool: min(baseline.ready.get(pool, 0), count - 1) for pool, count in seen.full.items()
    }
    if state.phase is not Phase.ABORTING or min(helping.values(), default=0) < 1:
        return {state.stable: seen.full, revision: kept}
    stable = {pool: count - helping[pool] for pool, count in seen.full.items()}
    return {state.stable: stable, revision: kept, name: helping}


def _kept(state: State, revision: str, seen: Seen) -> dict[str, int]:
    """Return the pods of a failed revision that stay to be looked at: none that stable needs."""
    if seen.now - state.since >= seen.policy.keep_failed_seconds:
        return dict.fromkeys(seen.pools, 0)
    asked = seen.of(revision).asked
    return {name: min(asked.get(name, 0), pool.extra) for name, pool in seen.pools.items()}
