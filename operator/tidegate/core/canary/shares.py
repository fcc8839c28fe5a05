"""The share of the requests that each revision gets, in thousandths; none without ready pods."""

import math
from collections.abc import Mapping
from fractions import Fraction

from tidegate.core import names
from tidegate.core.canary import leaving
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import Phase, State
from tidegate.core.canary.targets import WHOLE

_ENOUGH = 0.8
"""A stable revision that bears this share of the requests takes all at once: what is too much for
it waits at the gate or is turned away, for as long as the last pods take to start."""


def of(state: State, seen: Seen) -> dict[str, int]:
    """Return the shares of the revisions that can serve; they add up to 1000, or there are none."""
    able = {name: strength for name in seen.pods if (strength := seen.strength(name))}
    if not able:
        return {}
    serving = {name: of for name, of in able.items() if leaving.most(state, name)} or able
    idle = dict.fromkeys(able, 0)
    if state.phase is Phase.CANARY and state.canary:
        return idle | _beside(state, seen, serving)
    if state.phase is Phase.PROMOTING:
        return idle | _divided(WHOLE, state, serving)
    return idle | _back(state, seen, serving)


def _weight(state: State, seen: Seen) -> int:
    """Return the canary's weight as it is now.

    Never more than its ready pods are of all replicas in any pool, so that one pod never gets the
    load of two.
    """
    weight = seen.policy.weight(state.step, is_ready=state.ready_since is not None)
    return min(weight, math.ceil(WHOLE * seen.strength(state.canary or "")))


def _beside(state: State, seen: Seen, serving: Mapping[str, Fraction]) -> dict[str, int]:
    """Give the canary its weight, its baseline as much, and the rest to stable.

    While stable is too weak for that, the others help it, its baseline among them.
    """
    canary = state.canary or ""
    others = {name: strength for name, strength in serving.items() if name != canary}
    if not others:
        return divide(WHOLE, serving)
    own = {canary: _weight(state, seen)} if canary in serving else {}
    weight = sum(own.values())
    equal = _equal(state, serving, weight)
    rest = WHOLE - weight - sum(equal.values())
    if not _is_strong(state, seen, serving, rest):
        return {**_divided(WHOLE - weight, state, others), **own}
    return {**dict.fromkeys(others, 0), state.stable: rest, **equal, **own}


def _equal(state: State, serving: Mapping[str, Fraction], weight: int) -> dict[str, int]:
    """Return the baseline's share beside a canary of that weight: as much for each of its pods."""
    if state.baseline is None or state.baseline not in serving or not weight:
        return {}
    for_each_pod = math.ceil(weight * serving[state.baseline] / serving[state.canary or ""])
    return {state.baseline: min(WHOLE - weight, for_each_pod)}


def _is_strong(state: State, seen: Seen, serving: Mapping[str, Fraction], rest: int) -> bool:
    """Say whether stable has the pods for what is left to it, in every pool.

    Before the step's weights hold, a baseline may have taken the place of most stable pods: then it
    helps them, in proportion.
    """
    stable = seen.of(state.stable)
    sides = [seen.of(name) for name in (state.canary, state.baseline) if name in serving]
    is_early = state.baseline in serving and state.ready_since is None

    def beside(pool: str, replicas: int) -> int:
        theirs = sum(pods.ready.get(pool, 0) for pods in sides)
        return replicas * rest // WHOLE if is_early else replicas - theirs

    return state.stable in serving and all(
        stable.ready.get(pool, 0) >= _ENOUGH * max(1, beside(pool, replicas))
        for pool, replicas in seen.full.items()
    )


def _back(state: State, seen: Seen, serving: Mapping[str, Fraction]) -> dict[str, int]:
    """Give all to the stable revision; while it is too weak for that, the others help it.

    Not once it is aborted, nor for longer than a step's deadline. Pods of its baselines are as good
    as its own for as long as they are there.
    """
    alike = {
        name: strength
        for name, strength in serving.items()
        if names.original_revision(name) == state.stable
    }
    if not alike:
        return divide(WHOLE, serving)
    waited = seen.now - state.since > seen.policy.deadline_seconds
    is_over = waited or state.phase is Phase.ABORTED
    helping = _helping(WHOLE, state, serving)
    own = max(int(WHOLE * sum(alike.values())), WHOLE - sum(helping.values()))
    if is_over or own >= _ENOUGH * WHOLE:
        return divide(WHOLE, alike)
    return {**divide(WHOLE - own, helping), **divide(own, alike)}


def _divided(whole: int, state: State, serving: Mapping[str, Fraction]) -> dict[str, int]:
    """Divide in proportion to what each bears; what leaves gets no more than it had."""
    helping = _helping(whole, state, serving)
    staying = {name: of for name, of in serving.items() if name not in helping}
    if not staying:
        return divide(whole, serving)
    return {**helping, **divide(whole - sum(helping.values()), staying)}


def _helping(whole: int, state: State, serving: Mapping[str, Fraction]) -> dict[str, int]:
    """Return the most that each revision on its way out may get of a whole."""
    even = divide(whole, serving)
    return {
        name: min(even[name], leaving.most(state, name))
        for name in serving
        if leaving.is_leaving(state, name)
    }


def divide(whole: int, counts: Mapping[str, int | Fraction]) -> dict[str, int]:
    """Divide a whole in proportion; the parts are integers and add up exactly."""
    total = Fraction(sum(counts.values()))
    parts = {name: int(whole * count // total) for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: (-(whole * counts[name] % total), name))
    for name in by_remainder[: whole - sum(parts.values())]:
        parts[name] += 1
    return parts
