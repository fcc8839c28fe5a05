"""What a rollout of a spec will need, before there is one: pods and GPUs by step, time, traffic.

The same functions decide that will decide then (`targets`, `pods`), over a deployment at rest. So
what is told here is what happens, as long as nobody else takes the GPUs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.rollout_spec import Strategy
from tidegate.core import landing, names, placement
from tidegate.core.analysis import latency, timeline
from tidegate.core.analysis.evidence import Metric
from tidegate.core.canary import baseline, bounds, limits, pods, policy, start_time, targets
from tidegate.core.canary.seen import PoolSize, Seen
from tidegate.core.canary.start_time import Span
from tidegate.core.canary.state import Phase, State
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan
from tidegate.core.rollout.slices import PoolLimits, Slice

STABLE, CANARY = "stable", "canary"
BASELINE = names.baseline_revision(STABLE, CANARY)
_WHOLE = 1000
_NodesOfSlices = Mapping[str, Mapping[str, tuple[Node, ...]]]
EVIDENCE_SECONDS = float(latency.FEWEST_INTERVALS * timeline.SHORTEST_SECONDS)
"""The least evidence that a Pass rests on, by the default `evidenceInterval`."""


@dataclass(frozen=True)
class SliceNeed:
    """The canary's pods of one pool on one class of node, and the GPUs of all of them."""

    pool: str
    product: str
    pods: int
    gpus: int


@dataclass(frozen=True)
class StepNeed:
    """One step.

    Attributes:
        weight_percent: The canary's share of the requests.
        is_judged: Whether it is an analysis; else it only waits.
        seconds: How long it lasts at least once its pods are ready.
        slices: The canary's pods.
        baseline: Pods of its baseline, by pool; none without one.
        extra_gpus: GPUs beside those of all replicas.
        missing_gpus: GPUs that it would take as well if they were free.
        given_up: Stable pods that give way, by pool; none where it is 0.
        is_possible: Whether its pods find room, be it by stable ones that give way.
        requests_per_second: Of the whole deployment, at which both sides reach `minSamples` in
            this step's time alone; None where nothing is judged.
    """

    weight_percent: int
    is_judged: bool
    seconds: float
    slices: tuple[SliceNeed, ...]
    baseline: Mapping[str, int]
    extra_gpus: int
    missing_gpus: int
    given_up: Mapping[str, int]
    is_possible: bool
    requests_per_second: float | None


@dataclass(frozen=True)
class Needs:
    """What a rollout will need.

    Attributes:
        strategy: How pods are replaced; only a canary has steps.
        is_default: Whether the spec leaves the strategy open.
        allowed_gpus: GPUs that it may take beside the replicas: by `gpuBudget`, else `maxSurge`.
        free_gpus: How many of these are free.
        min_samples: Requests of each side that a verdict needs.
        memory_seconds: Evidence on memory that it needs where engines tell theirs.
        warm_up_seconds: Left out of the judgement, once.
        starts: How often it waits for pods to start, one after another, promotion included.
        start: How long a pod takes to start.
    """

    strategy: Strategy
    is_default: bool
    steps: tuple[StepNeed, ...]
    allowed_gpus: int
    free_gpus: int
    min_samples: int
    memory_seconds: float
    warm_up_seconds: float
    starts: int
    start: Span

    @property
    def fixed_seconds(self) -> float:
        """What steps and warm-up take at least: exact."""
        is_judged = any(step.is_judged for step in self.steps)
        return sum(step.seconds for step in self.steps) + self.warm_up_seconds * is_judged

    @property
    def least(self) -> Span:
        """What the whole rollout takes at least: as sure as the start of pods."""
        return self.start.times(self.starts).plus(self.fixed_seconds)

    @property
    def extra_gpus(self) -> int:
        """GPUs beside the replicas at the step that takes most."""
        whole = 0 if self.strategy == "Recreate" else self.free_gpus
        return max((step.extra_gpus for step in self.steps), default=whole)

    @property
    def is_possible(self) -> bool:
        """Whether every step finds room."""
        return all(step.is_possible for step in self.steps)


def of(
    spec: LLMDeploymentSpec,
    plan: Plan,
    nodes: Sequence[Node],
    free_gpus: Mapping[str, int],
    *,
    can_judge: bool = True,
) -> Needs:
    """Return what a rollout will need.

    Args:
        spec: The spec whose next revision is rolled out.
        plan: Its plan: the next revision is taken to need pods of the same size.
        nodes: Every node.
        free_gpus: By node: GPUs that nobody holds while all replicas run (`beside_replicas`).
        can_judge: Whether the operator has a Prometheus.
    """
    wishes = policy.of(spec, can_judge=can_judge)
    found = _at_rest(plan, _nodes_of_slices(spec, nodes))
    replicas = {
        name: sum(entry.replicas for entry in plan.of_pool(name)) for name in spec.pools.by_name()
    }
    allowed = limits.of(spec, replicas)
    seen = Seen(
        now=0.0,
        wanted=CANARY,
        policy=wishes,
        pools=pods.sizes(found, allowed, free_gpus, CANARY),
        pods=pods.by_revision(found),
    )
    count = len(wishes.steps) if wishes.strategy == "Canary" else 0
    sizes = tuple(
        pods.sizes(found, allowed, free_gpus, CANARY, step.weight, wishes.sides)
        for step in wishes.steps[:count]
    )
    placed = tuple(
        _at_step(index, found, replace(seen, pools=of_step)) for index, of_step in enumerate(sizes)
    )
    world = _World(spec, plan, allowed, seen, sizes, placed, _min_samples(spec))
    return Needs(
        strategy=wishes.strategy,
        is_default=not wishes.is_told,
        steps=tuple(map(world.step, range(count))),
        allowed_gpus=world.gpus_of({name: of.surge for name, of in allowed.items()}),
        free_gpus=world.gpus_of({name: size.extra for name, size in seen.pools.items()}),
        min_samples=world.min_samples,
        memory_seconds=float(
            bounds.rules(spec)[Metric.MEMORY_GROWTH].min_samples * timeline.SHORTEST_SECONDS
        ),
        warm_up_seconds=wishes.warm_up_seconds,
        starts=world.starts(),
        start=start_time.of(plan),
    )


def beside_replicas(
    spec: LLMDeploymentSpec, plan: Plan, nodes: Sequence[Node], free_gpus: Mapping[str, int]
) -> Mapping[str, int]:
    """Return what is free once a plan's replicas have been put on the nodes."""
    members = _nodes_of_slices(spec, nodes)
    for entry in plan.slices:
        theirs = members[entry.pool][entry.node_class.name]
        free_gpus = placement.take(free_gpus, theirs, entry.gpus, entry.replicas)
    return free_gpus


@dataclass(frozen=True)
class _World:
    """A deployment at rest, what its rollout may do, and its room and its slices at each step."""

    spec: LLMDeploymentSpec
    plan: Plan
    allowed: Mapping[str, PoolLimits]
    seen: Seen
    sizes: Sequence[Mapping[str, PoolSize]]
    placed: Sequence[Sequence[Slice]]
    min_samples: int

    def step(self, index: int) -> StepNeed:
        """Return what a step needs."""
        wished, placed = self.seen.policy.steps[index], self.placed[index]
        full, there = self.seen.full, self.counts(placed)
        stable = self.counts(placed, STABLE)
        return StepNeed(
            weight_percent=wished.weight // 10,
            is_judged=wished.is_judged,
            seconds=max(wished.seconds, EVIDENCE_SECONDS * self.is_first_judged(index)),
            slices=self.slices(placed),
            baseline=self.counts(placed, BASELINE),
            extra_gpus=self.gpus_of({name: there[name] - full[name] for name in full}),
            missing_gpus=self.missing_gpus(index, there, stable),
            given_up={name: full[name] - stable[name] for name in full},
            is_possible=self.is_possible(index, there, self.counts(placed, CANARY)),
            requests_per_second=self.requests_per_second(wished),
        )

    def is_first_judged(self, index: int) -> bool:
        """Say whether a step is the first one with a verdict: it waits for evidence."""
        judged = [number for number, of in enumerate(self.seen.policy.steps) if of.is_judged]
        return judged[:1] == [index]

    def missing_gpus(self, index: int, there: Mapping[str, int], stable: Mapping[str, int]) -> int:
        """Return the GPUs that the spec allows beside the replicas, and that are not free."""
        return self.gpus_of(
            {
                name: min(of.surge, there[name] - stable[name]) - self.sizes[index][name].extra
                for name, of in self.allowed.items()
            }
        )

    def is_possible(self, index: int, there: Mapping[str, int], canary: Mapping[str, int]) -> bool:
        """Say whether all pods find room, be it by stable ones that may be missing meanwhile."""
        return all(
            there[name] <= size.replicas + size.extra
            and (canary[name] or not size.replicas)
            and (size.extra or self.allowed[name].unavailable or not size.replicas)
            for name, size in self.sizes[index].items()
        )

    def requests_per_second(self, step: policy.Step) -> float | None:
        """Return the traffic with which the smaller side has enough samples in a step's time."""
        smaller = min(step.weight, _WHOLE - step.weight)
        return self.min_samples * _WHOLE / (step.seconds * smaller) if step.is_judged else None

    def counts(self, placed: Sequence[Slice], revision: str | None = None) -> dict[str, int]:
        """Return the pods of each pool, of one revision or of all."""
        return {
            name: sum(
                of.target for of in placed if of.pool == name and revision in (None, of.revision)
            )
            for name in self.seen.pools
        }

    def slices(self, placed: Sequence[Slice]) -> tuple[SliceNeed, ...]:
        """Return the canary's pods by pool and class."""
        products = {entry.node_class.name: entry.node_class.product for entry in self.plan.slices}
        return tuple(
            SliceNeed(of.pool, products[of.node_class], of.target, of.target * of.gpus)
            for of in placed
            if of.revision == CANARY and of.target
        )

    def gpus_of(self, counts: Mapping[str, int]) -> int:
        """Return the GPUs of pods by pool; less than none count as none."""
        each = limits.gpus(self.spec)
        return sum(max(0, count) * each[name] for name, count in counts.items())

    def starts(self) -> int:
        """Return how many times in a row pods have to start, until all are of the new revision."""
        counts = [self.counts(placed, CANARY) for placed in self.placed]
        before = [dict.fromkeys(self.seen.pools, 0), *counts]
        if self.seen.policy.strategy == "Recreate":
            return 1
        growing = sum(now != last for last, now in zip(before, counts, strict=False))
        at_once = {
            name: max(1, size.extra, self.allowed[name].unavailable)
            for name, size in self.seen.pools.items()
        }
        waves = (
            -(-(size.replicas - before[-1][name]) // at_once[name])
            for name, size in self.seen.pools.items()
        )
        return growing + max(waves, default=0)


def _at_rest(plan: Plan, members: _NodesOfSlices) -> list[Slice]:
    """Return the slices of a deployment whose replicas all run, and those of its next revision."""
    found = []
    for entry in plan.slices:
        name, count = entry.node_class.name, entry.replicas
        there = Slice(
            name=f"{STABLE} {entry.pool} {name}",
            pool=entry.pool,
            revision=STABLE,
            gpus=entry.gpus,
            asked=count,
            ready=count,
            bound=count,
            live=count,
            node_class=name,
        )
        new = Slice(
            name=f"{CANARY} {entry.pool} {name}",
            pool=entry.pool,
            revision=CANARY,
            gpus=entry.gpus,
            target=count,
            exists=False,
            nodes=frozenset(node.name for node in members[entry.pool][name]),
            node_class=name,
        )
        found += [there, new]
    return found


def _at_step(index: int, found: Sequence[Slice], seen: Seen) -> list[Slice]:
    """Return all slices with the pods that they have at a step."""
    other = BASELINE if seen.policy.has_baseline else None
    state = State(Phase.CANARY, STABLE, 0.0, canary=CANARY, baseline=other, step=index)
    every = [*found, *baseline.missing("", found, state)]
    return pods.with_targets(every, targets.of(state, seen), CANARY, seen.pools)


def _nodes_of_slices(spec: LLMDeploymentSpec, nodes: Sequence[Node]) -> _NodesOfSlices:
    """Return where pods may land, by pool and class."""
    return {
        name: landing.find(name, pool, nodes).by_class
        for name, pool in spec.pools.by_name().items()
    }


def _min_samples(spec: LLMDeploymentSpec) -> int:
    """Return the requests of each side that every metric has enough with."""
    judged = bounds.rules(spec)
    return max(of.min_samples for name, of in judged.items() if name is not Metric.MEMORY_GROWTH)
