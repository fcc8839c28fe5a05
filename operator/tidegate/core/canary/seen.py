"""What a rollout is decided by: the pods that are there, and what was learned of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tidegate.core import names
from tidegate.core.analysis.evidence import Judgement
from tidegate.core.canary.policy import Policy
from tidegate.core.rollout.board import PAIR


@dataclass(frozen=True)
class PoolSize:
    """A pool of the spec: its replicas, and how many pods a rollout may have above them.

    `extra` is what the spec allows and the nodes have room for. `places` are the pods that have a
    node or would find one, by class of node.
    """

    replicas: int
    extra: int = 0
    places: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RevisionPods:
    """The pods of a revision, by pool: asked for, and ready. `live` counts all that are there."""

    asked: Mapping[str, int] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)
    live: int = 0

    @property
    def can_serve(self) -> bool:
        """Say whether it has a ready pod in each pool that a request needs."""
        ready = {pool for pool, count in self.ready.items() if count}
        return "unified" in ready or ready >= PAIR

    @property
    def answering(self) -> int:
        """Ready pods that write answers; those of a pair need one that reads prompts."""
        decode = self.ready.get("decode", 0) if self.ready.get("prefill") else 0
        return self.ready.get("unified", 0) + decode

    @property
    def pools(self) -> frozenset[str]:
        """The pools that it has pods in."""
        return frozenset(pool for pool, count in self.asked.items() if count)

    def has(self, pods: Mapping[str, int]) -> bool:
        """Say whether at least so many are ready in each pool."""
        return all(self.ready.get(pool, 0) >= count for pool, count in pods.items())


@dataclass(frozen=True)
class Look:
    """What metrics said: requests of the canary so far, and the verdict once it is judged.

    `asked_since` is when the first interval of this step began in which the canary had a request,
    `until` when the last interval of all ended.
    """

    requests: float | None
    judgement: Judgement | None = None
    trouble: str = ""
    asked_since: float | None = None
    until: float | None = None


@dataclass(frozen=True)
class Seen:
    """Everything that the next state depends on beside the last one.

    `wanted` is the revision that the spec asks for. `trouble` says why the canary's pods do not
    get ready, `is_blocked` that they find no room. `look` is None where nobody has looked.
    """

    now: float
    wanted: str
    policy: Policy
    pools: Mapping[str, PoolSize]
    pods: Mapping[str, RevisionPods]
    trouble: str = ""
    is_blocked: bool = False
    look: Look | None = None

    def of(self, revision: str | None) -> RevisionPods:
        """Return the pods of a revision; none where there are none."""
        return self.pods.get(revision or "", RevisionPods())

    def alike(self, revision: str) -> tuple[RevisionPods, ...]:
        """Return the pods that are equal to a revision's: its own, and those of its baselines.

        Halves of a pair serve only within each of them.
        """
        return tuple(
            pods for name, pods in self.pods.items() if names.original_revision(name) == revision
        )

    def serves(self, revision: str) -> bool:
        """Say whether a revision can serve, be it by the pods of a baseline."""
        return any(pods.can_serve for pods in self.alike(revision))

    def strength(self, revision: str) -> Fraction:
        """Return the part of all requests that a revision's own pods bear, 1 for all replicas.

        It is as strong as its weakest pool. What is of another mode of pools than the spec has no
        replicas to be held against but those that write answers.
        """
        pods = self.of(revision)
        if not pods.can_serve:
            return Fraction(0)
        if not all(pods.ready.get(pool) for pool in self.pools):
            return Fraction(pods.answering, max(1, self.answering_replicas))
        return min(
            Fraction(pods.ready[name], max(1, pool.replicas)) for name, pool in self.pools.items()
        )

    def strength_alike(self, revision: str) -> Fraction:
        """Return the part of all requests that pods equal to a revision's bear."""
        own = (name for name in self.pods if names.original_revision(name) == revision)
        return sum(map(self.strength, own), Fraction(0))

    def has_all(self, revision: str) -> bool:
        """Say whether all replicas are ready in pods equal to a revision's."""
        return all(
            sum(pods.ready.get(pool, 0) for pods in self.alike(revision)) >= count
            for pool, count in self.full.items()
        )

    @property
    def is_empty(self) -> bool:
        """Say whether no pod is wanted that could serve: a pool that requests need has none."""
        return not RevisionPods(ready=self.full).can_serve

    @property
    def full(self) -> dict[str, int]:
        """All replicas, by pool."""
        return {name: pool.replicas for name, pool in self.pools.items()}

    @property
    def answering_replicas(self) -> int:
        """Replicas of the pools that write answers."""
        return sum(count for name, count in self.full.items() if name != "prefill")
