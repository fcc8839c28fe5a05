"""The board: what is asked for while a decision is made, and which ready pods may be spared.

A pod serves only beside a pod of its own revision in every other pool, since KV never passes
between revisions. So the limits are kept twice: by ready pods, and by ready pods of *complete*
revisions, those that have a ready pod in each of their pools.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tidegate.core.rollout.slices import PoolLimits, Slice

PAIR = frozenset({"prefill", "decode"})
Floor = Callable[[str], int]


class Board:
    """The slices and what is asked of each; `ask` starts as it is and is moved by the steps."""

    def __init__(
        self, slices: Sequence[Slice], pools: Mapping[str, PoolLimits], revision: str
    ) -> None:
        self.slices = sorted(slices, key=lambda s: (s.pool, s.name))
        self.pools = pools
        self.revision = revision
        self.ask = {s.name: s.asked for s in self.slices}

    # counting

    def ready(self, of: Slice) -> int:
        """Ready pods that stay: a ReplicaSet deletes those that are not ready first."""
        return min(of.ready, self.ask[of.name])

    def unready(self, of: Slice) -> int:
        """Pods asked for that do not serve."""
        return self.ask[of.name] - self.ready(of)

    def surplus(self, of: Slice) -> int:
        """Pods asked for above what is wanted in the end."""
        return max(0, self.ask[of.name] - of.target)

    def deficit(self, of: Slice) -> int:
        """Pods wanted in the end and not asked for yet."""
        return max(0, of.target - self.ask[of.name])

    def ready_in(self, pool: str, revisions: Collection[str] | None = None) -> int:
        """Ready pods of a pool, of all revisions or of some."""
        return sum(
            self.ready(s)
            for s in self.slices
            if s.pool == pool and (revisions is None or s.revision in revisions)
        )

    def asked_in(self, pool: str, revision: str) -> int:
        """Pods asked for in a pool of a revision."""
        return sum(
            self.ask[s.name] for s in self.slices if (s.pool, s.revision) == (pool, revision)
        )

    def held(self, pool: str) -> int:
        """Pods of a pool that are there or asked for: what the surge limits."""
        limits = self.pools.get(pool)
        ending = limits is not None and limits.counts_ending
        return sum(
            max(self.ask[s.name], s.live) + (s.ending if ending else 0)
            for s in self.slices
            if s.pool == pool
        )

    def surge_left(self, pool: str) -> int:
        """Pods of a pool that may come above those that are there."""
        limits = self.pools[pool]
        return max(0, limits.replicas + limits.surge - self.held(pool))

    def is_on_budget(self, of: Slice) -> bool:
        """Say whether new pods of a slice come beside others, in a pool with a budget of GPUs."""
        limits = self.pools.get(of.pool)
        return (
            limits is not None
            and limits.counts_ending
            and any(
                (s.asked or s.live or s.ending) and s.revision != of.revision
                for s in self.slices
                if s.pool == of.pool
            )
        )

    # revisions

    def pools_of(self, revision: str) -> frozenset[str]:
        """The pools that pods of a revision need beside them."""
        if revision == self.revision:
            return frozenset(name for name, pool in self.pools.items() if pool.replicas)
        own = {s.pool for s in self.slices if s.revision == revision}
        return PAIR if own & PAIR else frozenset(own)

    def is_complete(self, revision: str) -> bool:
        """Say whether a revision has a ready pod in each of its pools."""
        return all(self.ready_in(pool, {revision}) for pool in self.pools_of(revision))

    def complete(self) -> set[str]:
        """Return the revisions that serve."""
        return {r for r in {self.revision, *self._revisions()} if self.is_complete(r)}

    def is_hopeless(self, revision: str) -> bool:
        """Say whether an old revision can never serve again: one of its pools was emptied."""
        return revision != self.revision and any(
            not self.asked_in(pool, revision) for pool in self.pools_of(revision)
        )

    def _revisions(self) -> Iterable[str]:
        return (s.revision for s in self.slices)

    # limits

    def at_strength(self) -> bool:
        """Say whether the current revision has all its pods ready."""
        return all(
            self.ready_in(name, {self.revision}) >= pool.replicas
            for name, pool in self.pools.items()
        )

    def full(self, pool: str) -> int:
        """Ready pods to keep while nothing forces a pod to give way."""
        if pool in self.pools:
            return self.pools[pool].replicas
        return 0 if self.at_strength() else self.ready_in(pool)

    def least(self, pool: str) -> int:
        """Ready pods to keep while any other step is left; a pool that left the spec keeps one."""
        if pool in self.pools:
            return self.pools[pool].least_ready
        return 0 if self.is_complete(self.revision) else 1

    def bare(self, pool: str) -> int:
        """Ready pods to keep in any case: what the limits of the spec say."""
        return self.pools[pool].least_ready if pool in self.pools else 0

    def can_spare(self, of: Slice, floor: Floor, *, pairs_matter: bool = True) -> bool:
        """Say whether one ready pod of a slice may go with each pool still above its floor."""
        pool, revision = of.pool, of.revision
        if revision == self.revision and pool in self.pools:
            # more than all replicas of the current revision: scaled down, or moved and ready
            if self.ready_in(pool, {revision}) > self.pools[pool].replicas:
                return True
        elif self.is_hopeless(revision):
            return self.ready_in(pool) > floor(pool)
        complete = self.complete()
        if self.ready_in(pool, complete | {revision}) <= floor(pool):
            return False
        ends_revision = revision in complete and self.ready_in(pool, {revision}) == 1
        return not (ends_revision and pairs_matter) or all(
            self.ready_in(other, complete - {revision}) >= floor(other)
            for other in self.pools_of(revision) - {pool}
        )
