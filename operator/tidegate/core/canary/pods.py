"""Between the rollout's slices and a canary's revisions: what is there, and what is to be there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.core import names
from tidegate.core.canary import spread
from tidegate.core.canary.seen import PoolSize, RevisionPods
from tidegate.core.canary.targets import Targets
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
) -> dict[str, PoolSize]:
    """Return the pools with what a rollout may have above the replicas: what finds room.

    Pods that have a node, be it to their end, and those that would find one, all revisions
    together: a GPU that an old pod has just given up is no room for another old one.
    """
    room = Room(free_gpus)
    found = {}
    for name, limits in sorted(pools.items()):
        own = [of for of in slices if of.pool == name]
        most = limits.replicas + limits.surge
        placed = sum(of.bound + sum(of.ending_on.values()) for of in own)
        for of in (of for of in own if of.revision == wanted):
            placed += room.take(of.nodes, of.gpus, max(0, most - placed))
        extra = min(limits.surge, max(0, placed - limits.replicas))
        found[name] = PoolSize(limits.replicas, extra)
    return found


def with_targets(slices: Sequence[Slice], targets: Targets, wanted: str) -> list[Slice]:
    """Return the slices with the pods that a rollout wants of them; `wanted` is the spec's.

    The plan's own slices come with the plan's replicas as target, all others with none.
    """
    by_pool: dict[tuple[str, str], list[Slice]] = {}
    for of in slices:
        by_pool.setdefault((of.pool, of.revision), []).append(of)
    parts: dict[str, int] = {}
    for (pool, revision), own in by_pool.items():
        total = targets.get(revision, {}).get(pool, 0)
        if revision == wanted:
            parts |= spread.of_plan(total, {of.name: of.target for of in own})
            continue
        planned = {of.node_class: of.target for of in by_pool.get((pool, wanted), ())}
        ours = spread.of_plan(targets.get(wanted, {}).get(pool, 0), planned)
        by_class = _wished(revision, planned, ours)
        wished = {of.name: by_class[of.node_class] for of in own if of.node_class in by_class}
        parts |= spread.of_running(total, {of.name: of.asked for of in own}, wished)
    return [replace(of, target=parts[of.name]) for of in slices]


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
