"""What the spec wants of a rollout, with its defaults resolved."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.rollout_spec import CommandAction, RolloutSpec, Strategy

_LEAST_LOOK_SECONDS = 5.0
_LOOKS_IN_A_STEP = 20.0


@dataclass(frozen=True)
class Step:
    """A step: its weight in thousandths, how long it lasts at least, and whether it is judged."""

    weight: int
    seconds: float
    is_judged: bool

    @property
    def look_seconds(self) -> float:
        """How long to wait between two looks: looks cost a query each and no statistical power."""
        return max(_LEAST_LOOK_SECONDS, self.seconds / _LOOKS_IN_A_STEP)


@dataclass(frozen=True)
class Command:
    """What a person says of one revision."""

    action: CommandAction
    revision: str
    token: str


@dataclass(frozen=True)
class Policy:
    """The wishes. `is_told` says that the strategy stands in the spec, and is no default.

    `has_baseline` asks for fresh stable pods beside the canary, where a step is judged at all.
    """

    strategy: Strategy
    steps: tuple[Step, ...]
    deadline_seconds: float
    warm_up_seconds: float
    aborts_when_inconclusive: bool
    keep_failed_seconds: float
    is_paused: bool = False
    command: Command | None = None
    is_told: bool = True
    has_baseline: bool = False

    def at(self, step: int) -> Step:
        """Return the step that a canary is at; steps that were cut short count with their last."""
        return self.steps[min(step, len(self.steps) - 1)]

    def weight(self, step: int, *, is_ready: bool) -> int:
        """Return a canary's weight in thousandths: of the step before until its pods are ready."""
        reached = min(step, len(self.steps) - 1) - (not is_ready)
        return self.steps[reached].weight if reached >= 0 else 0

    @property
    def sides(self) -> int:
        """Return how many revisions have a step's pods: the canary, and its baseline if any."""
        return 2 if self.has_baseline else 1

    def longest_seconds(self, step: Step) -> float:
        """Return how long a step may take: its own time, the warm-up, and the deadline's."""
        return step.seconds + self.warm_up_seconds + self.deadline_seconds


def of(spec: LLMDeploymentSpec, *, can_judge: bool) -> Policy:
    """Return the policy of a spec; `can_judge` says that the operator has a Prometheus."""
    rollout = spec.rollout
    given = rollout.command
    return Policy(
        strategy=strategy_of(spec, can_judge=can_judge),
        steps=tuple(
            Step(step.weight * 10, step.seconds, step.analysis is not None)
            for step in rollout.steps
        ),
        deadline_seconds=rollout.deadline,
        warm_up_seconds=rollout.warm_up,
        aborts_when_inconclusive=rollout.on_inconclusive == "Abort",
        keep_failed_seconds=rollout.keep_failed_for,
        is_paused=rollout.paused,
        command=Command(given.action, given.revision, given.token) if given else None,
        is_told=rollout.strategy is not None,
        has_baseline=rollout.baseline and any(step.analysis is not None for step in rollout.steps),
    )


def strategy_of(spec: LLMDeploymentSpec, *, can_judge: bool) -> Strategy:
    """Return how old pods are replaced.

    Weights need a gate, so without one a canary is a rolling update. Where nothing is said, a
    canary must also be judged by somebody, and find room without a free GPU: by one old pod of
    each pool that gives way while another one serves.
    """
    said = spec.rollout.strategy
    if said == "Recreate":
        return said
    if not spec.gate.enabled:
        return "RollingUpdate"
    if said is not None:
        return said
    has_room = all(pool.replicas >= 2 for pool in spec.pools.by_name().values())
    return "Canary" if can_judge and has_room else "RollingUpdate"


def extra_pods(
    rollout: RolloutSpec, gpus: Mapping[str, int], surge: Mapping[str, int]
) -> dict[str, int]:
    """Return by pool the pods that a rollout may have above the replicas.

    Args:
        rollout: The spec's part; without `gpuBudget` it is `maxSurge` of each pool.
        gpus: GPUs of one pod by pool.
        surge: Pods that `maxSurge` allows, by pool.
    """
    left = rollout.gpu_budget
    if left is None:
        return dict(surge)
    rounds, left = divmod(left, sum(gpus.values()))  # of one pod for each pool
    extra = dict.fromkeys(gpus, rounds)
    while affordable := [pool for pool in extra if 0 < gpus[pool] <= left]:
        # the pool that has fewest so far: half a pair serves nobody
        pool = min(affordable, key=lambda name: (extra[name], -gpus[name], name))
        extra[pool] += 1
        left -= gpus[pool]
    return extra
