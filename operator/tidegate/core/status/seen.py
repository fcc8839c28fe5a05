"""What one pass has seen and decided, for the status to tell."""

from dataclasses import dataclass

from tidegate.api.overload_status import OverloadStatus
from tidegate.core.canary.rollout import Rollout
from tidegate.core.causes import Cause
from tidegate.core.measure.drift import Drift
from tidegate.core.plan import Plan
from tidegate.core.rollout.slices import Decision
from tidegate.core.status.conditions import Verdict
from tidegate.core.status.gates import GatesSeen


@dataclass(frozen=True)
class PoolPods:
    """The pods of one pool: asked for, ready of any revision, ready of the current one."""

    name: str
    revision: str
    desired: int
    ready: int
    updated: int


@dataclass(frozen=True)
class Trouble:
    """Why there is no going on: it `waits` for something, or until somebody acts."""

    reason: str
    message: str
    waits: bool = False


@dataclass(frozen=True)
class Loop:
    """What the slow loop holds, and its conditions; nothing where it has nothing to do."""

    status: OverloadStatus | None = None
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True)
class Seen:
    """The input of a status. `last_progress` is in seconds since 1970, None where nothing tells.

    `is_serving` says that one revision has a ready pod in each pool. Without a plan or a decision
    there is trouble. Without `gates` there is none before the engines.
    `waiting` names slices that run as rendered before, None where that is not known.
    `rollout` is where the rollout stands, None where trouble came before it.
    """

    generation: int
    pools: tuple[PoolPods, ...]
    is_serving: bool
    plan: Plan | None = None
    decision: Decision | None = None
    warnings: tuple[str, ...] = ()
    trouble: Trouble | None = None
    cause: Cause | None = None
    last_progress: float | None = None
    progress_deadline_seconds: float = 3600.0
    drifts: tuple[Drift, ...] = ()
    drift_limit_percent: float = 5.0
    gates: GatesSeen | None = None
    waiting: tuple[str, ...] | None = None
    rollout: Rollout | None = None
    loop: Loop = Loop()
