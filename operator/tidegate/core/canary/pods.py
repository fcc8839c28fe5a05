"""Between the rollout's slices and a canary's revisions: what is there, and what is to be there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.core import names
from tidegate.core.canary import spread
from tidegate.core.canary.seen import PoolSize, RevisionPods
from tidegate.core.canary.targets import WHOLE, Targets, of_weight
from tidegate.core.rollout.room import Room
from tidegate.core.rollout.slices import PoolLimits, Slice


def by_revision(slices: Sequence[Slice]) -> dict[str, RevisionPods]:
    """Return the pods of each revision that is there."""
    found: dict[str, list[Slice]] = {}
    for of in slices:
        if of.exists or of.live or of.ending:
            found.setdefault(of.revision, []).append(of)
    return {
        revision: RevisionPods(
            asked=_sum({of.name: (of.pool, of.asked) for of in own}),
            ready=_sum({of.name: (of.pool, min(of.ready, of.asked)) for of in own}),
            live=sum(max(of.asked, of.live) + of.ending for of in own),
        )
        for revision, own in found.items()
    }


def sizes(
    slices: Sequence[Slice],
    pools: Mapping[str, PoolLimits],
    free_gpus: Mapping[str, int],
    wanted: str,
    weight: int = WHOLE,
    sides: int = 1,
) -> dict[str, PoolSize]:
    """Return the pools with what a rollout may have above the replicas: what finds room.

    Pods that have a node, be it to their end, and those that would find one, all revisions
    together: a GPU that an old pod has just given up is no room for another old one. A class has
    no more places than it is to have pods: a free GPU elsewhere is no room for a canary.

    Pools take room by turns, the smallest first: the only pod of a pool cannot give way.

    Args:
        slices: Those of the plan, with its replicas, and all others that are there.
        pools: The pools of the spec with their limits.
        free_gpus: By node: GPUs that no pod holds.
        wanted: The revision of the spec.
        weight: The share of the replicas, in thousandths, that the step at hand has pods of.
        sides: How many revisions have as many: the canary, and its baseline if there is one.
    """
    room = Room(free_gpus)
    found = {
        name: _Places(
            [of for of in slices if of.pool == name],
            wanted,
            beside=of_weight(weight, limits.replicas),
            sides=sides,
        )
        for name, limits in pools.items()
    }
    for name, limits in sorted(pools.items()):
        found[name].take(room, limits.replicas)
    growing = set(pools)
    while growing:
        name = min(growing, key=lambda of: (found[of].above(pools[of]), pools[of].replicas, of))
        limits = pools[name]
        is_full = found[name].count >= limits.replicas + limits.surge
        if is_full or not found[name].take(room, found[name].count + 1):
            growing.remove(name)
    return {
        name: PoolSize(
            limits.replicas,
            max(0, min(limits.surge, found[name].above(limits))),
            found[name].by_class,
        )
        for name, limits in pools.items()
    }


class _Places:
    """The places of a pool by class of node: held ones, and free ones as it takes them."""

    def __init__(self, own: Sequence[Slice], wanted: str, *, beside: int, sides: int) -> None:
        self._new = [of for of in own if of.revision == wanted]
        planned = {of.node_class: of.target for of in self._new}
        ours = spread.of_plan(beside, planned)
        self._most = {name: count + sides * ours[name] for name, count in planned.items()}
        self.by_class: dict[str, int] = {}
        for of in own:
            held = of.bound + sum(of.ending_on.values())
            self.by_class[of.node_class] = self.by_class.get(of.node_class, 0) + held

    @property
    def count(self) -> int:
        return sum(self.by_class.values())

    def above(self, limits: PoolLimits) -> int:
        """Return how many places there are above the replicas."""
        return self.count - limits.replicas

    def take(self, room: Room, up_to: int) -> int:
        """Take free places until there are so many; return how many were found."""
        before = self.count
        for of in self._new:
            left = min(up_to - self.count, self._most[of.node_class] - self.by_class[of.node_class])
            self.by_class[of.node_class] += room.take(of.nodes, of.gpus, max(0, left))
        return self.count - before


def with_targets(
    slices: Sequence[Slice], targets: Targets, wanted: str, pools: Mapping[str, PoolSize]
) -> list[Slice]:
    """Return the slices with the pods that a rollout wants of them; `wanted` is the spec's.

    The plan's own slices come with the plan's replicas as target, all others with none.
    """
    by_pool: dict[tuple[str, str], list[Slice]] = {}
    for of in slices:
        by_pool.setdefault((of.pool, of.revision), []).append(of)
    parts: dict[str, int] = {}
    lacking = {
        name: Counter({k: -n for k, n in size.places.items()}) for name, size in pools.items()
    }
    for (pool, revision), own in sorted(by_pool.items(), key=lambda of: _rank(of[0][1], wanted)):
        total = targets.get(revision, {}).get(pool, 0)
        if revision == wanted:
            theirs = spread.of_plan(total, {of.name: of.target for of in own})
        else:
            planned = {of.node_class: of.target for of in by_pool.get((pool, wanted), ())}
            ours = spread.of_plan(targets.get(wanted, {}).get(pool, 0), planned)
            by_class = _wished(revision, planned, ours)
            wished = {of.name: by_class[of.node_class] for of in own if of.node_class in by_class}
            crowd = {of.name: lacking.get(pool, Counter())[of.node_class] for of in own}
            theirs = spread.of_running(total, {of.name: of.asked for of in own}, wished, crowd)
        for of in own if pool in lacking else ():
            lacking[pool][of.node_class] += theirs[of.name]
        parts |= theirs
    return [replace(of, target=parts[of.name]) for of in slices]


def _rank(revision: str, wanted: str) -> int:
    """Order revisions by who has the say where pods are: the new one, its baseline, the others."""
    return 0 if revision == wanted else 1 if names.is_baseline(revision) else 2


def _wished(
    revision: str, planned: Mapping[str, int], ours: Mapping[str, int]
) -> Mapping[str, int]:
    """Return where pods of another revision than the wanted one are best, by class of node.

    A baseline where the canary is, for it is to be compared with it; others where that is not.
    """
    if names.is_baseline(revision):
        return ours
    return {name: count - ours[name] for name, count in planned.items()}


def _sum(counts: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pool, count in counts.values():
        total[pool] = total.get(pool, 0) + count
    return total
