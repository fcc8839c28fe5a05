"""What a rollout looks at, and what it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Strategy = Literal["RollingUpdate", "Recreate"]


@dataclass(frozen=True)
class Slice:
    """One slice: a Deployment that is there, or that the plan wants, or both.

    `target` is what the plan wants of it in the end; 0 for a slice of an old revision and for one
    of a class that left the plan: both are treated alike. `asked` is its `spec.replicas` now.
    `ready`, `bound` (has a node) and `live` count pods that are not being deleted, `ending` those
    that are. `refused` are pods that the scheduler could not place at its last try.
    `nodes` are those on which new pods may land, `holding` the nodes on which it has pods now.
    `node_class` is the class of both, as labels have it.
    """

    name: str
    pool: str
    revision: str
    gpus: int
    target: int = 0
    exists: bool = True
    asked: int = 0
    ready: int = 0
    bound: int = 0
    live: int = 0
    ending: int = 0
    refused: int = 0
    nodes: frozenset[str] = frozenset()
    holding: frozenset[str] = frozenset()
    ending_on: Mapping[str, int] = field(default_factory=dict)
    node_class: str = ""


@dataclass(frozen=True)
class PoolLimits:
    """A pool that the spec has: its replicas, and how far a rollout may go above and below.

    `counts_ending` says that pods on their way out count for the surge, since they hold GPUs still.
    """

    replicas: int
    surge: int
    unavailable: int
    counts_ending: bool = False

    @property
    def least_ready(self) -> int:
        """Ready pods that the rollout itself never goes below."""
        return max(0, self.replicas - self.unavailable)


def limits(replicas: int, max_surge: int | str, max_unavailable: int | str) -> PoolLimits:
    """Resolve the limits of a pool as Kubernetes does for a Deployment.

    Percentages count of the pool's replicas; surge is rounded up, unavailable down, and where both
    come to 0 one pod may be missing, since nothing could move otherwise.
    """
    surge = _share(max_surge, replicas, up=True)
    unavailable = _share(max_unavailable, replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return PoolLimits(replicas, surge, unavailable)


def _share(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%")) * replicas
    return -(-percent // 100) if up else percent // 100


class State(StrEnum):
    """How far the slices are from what is wanted."""

    SETTLED = "Settled"  # every wanted pod is ready, nothing else is there
    STARTING = "Starting"  # all wanted pods are asked for, some are not ready
    SCALING = "Scaling"  # pods are added or taken away, none is replaced
    ROLLING = "Rolling"  # old pods are being replaced
    BLOCKED = "Blocked"  # old pods are to be replaced, and nothing can move


@dataclass(frozen=True)
class Decision:
    """Replicas to ask for by name of Deployment, what to delete, and how things stand."""

    replicas: Mapping[str, int]
    delete: tuple[str, ...]
    state: State
    message: str
