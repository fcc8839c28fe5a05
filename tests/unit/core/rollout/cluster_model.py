"""A model of a cluster for the rollout alone: nodes with GPUs, ReplicaSets, a scheduler, engines.

`pass_once` is what the operator does in one pass; the other steps are what the cluster does by
itself, in any order. Every pass is checked against the promises of the rollout.
"""

import itertools
from dataclasses import dataclass, field

from tidegate.core.rollout import decide, slices
from tidegate.core.rollout.slices import Decision, PoolLimits, Slice, State


@dataclass
class Pod:
    number: int
    slice: str
    gpus: int
    node: str | None = None
    ready: bool = False
    ending: bool = False
    refused: bool = False


@dataclass(frozen=True)
class Target:
    """What a spec wants of one pool on one class (a group of nodes)."""

    pool: str
    node_class: str
    replicas: int
    gpus: int = 1


@dataclass
class Spec:
    revision: str
    targets: tuple[Target, ...]
    surge: int | str = 1
    unavailable: int | str = 1
    strategy: str = "RollingUpdate"

    def limits(self) -> dict[str, PoolLimits]:
        replicas: dict[str, int] = {}
        for target in self.targets:
            replicas[target.pool] = replicas.get(target.pool, 0) + target.replicas
        return {
            pool: slices.limits(count, self.surge, self.unavailable)
            for pool, count in replicas.items()
        }


@dataclass
class Row:
    pool: str
    revision: str
    node_class: str
    gpus: int
    replicas: int


@dataclass
class ClusterModel:
    nodes: dict[str, tuple[str, int]]  # name: (class, GPUs)
    spec: Spec
    broken: set[str] = field(default_factory=set)  # revisions whose pods never become ready
    foreign: dict[str, int] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    last: Decision | None = None

    # what the operator sees and does

    def free(self) -> dict[str, int]:
        left = {name: gpus - self.foreign.get(name, 0) for name, (_, gpus) in self.nodes.items()}
        for pod in self.pods:
            if pod.node:
                left[pod.node] -= pod.gpus
        return left

    def slices(self) -> list[Slice]:
        wanted = {f"{t.pool}-{self.spec.revision}-{t.node_class}": t for t in self.spec.targets}
        found = []
        for name in sorted({*wanted, *self.rows}):
            target, row = wanted.get(name), self.rows.get(name)
            mine = [p for p in self.pods if p.slice == name]
            live = [p for p in mine if not p.ending]
            ending = [p for p in mine if p.ending]
            node_class = target.node_class if target else row.node_class
            found.append(
                Slice(
                    name=name,
                    pool=target.pool if target else row.pool,
                    revision=self.spec.revision if target else row.revision,
                    gpus=row.gpus if row else target.gpus,
                    target=target.replicas if target else 0,
                    exists=row is not None,
                    asked=row.replicas if row else 0,
                    ready=sum(p.ready for p in live),
                    bound=sum(p.node is not None for p in live),
                    live=len(live),
                    ending=len(ending),
                    refused=sum(p.refused for p in live),
                    nodes=frozenset(n for n, (c, _) in self.nodes.items() if c == node_class),
                    holding=frozenset(p.node for p in live if p.node),
                    ending_on={
                        n: sum(p.node == n for p in ending) for n in {p.node for p in ending} if n
                    },
                )
            )
        return found

    def decision(self) -> Decision:
        return decide.decide(
            self.slices(), self.spec.limits(), self.free(), self.spec.strategy, self.spec.revision
        )

    def pass_once(self) -> bool:
        """Decide, check, and write; say whether anything was written."""
        before = self.slices()
        decision = self.decision()
        check(self, before, decision)
        self.last = decision
        wrote = False
        for entry in before:
            replicas = decision.replicas[entry.name]
            if entry.name in self.rows:
                wrote |= self.rows[entry.name].replicas != replicas
                self.rows[entry.name].replicas = replicas
            elif replicas:
                target = next(
                    t
                    for t in self.spec.targets
                    if entry.name == f"{t.pool}-{self.spec.revision}-{t.node_class}"
                )
                self.rows[entry.name] = Row(
                    target.pool, self.spec.revision, target.node_class, target.gpus, replicas
                )
                wrote = True
        for name in decision.delete:
            del self.rows[name]
            wrote = True
        return wrote

    # what the cluster does by itself

    def control(self) -> bool:
        """The Deployment controller: pods as asked; those that are not ready go first."""
        moved = False
        for name, row in self.rows.items():
            live = [p for p in self.pods if p.slice == name and not p.ending]
            for _ in range(row.replicas - len(live)):
                self.pods.append(Pod(next(self.numbers), name, row.gpus))
                moved = True
            for pod in sorted(live, key=lambda p: (p.node is not None, p.ready, -p.number))[
                : max(0, len(live) - row.replicas)
            ]:
                if pod.node is None:
                    self.pods.remove(pod)
                else:
                    pod.ending, pod.ready = True, False
                moved = True
        return moved

    def schedule(self, prefer: int = 0) -> bool:
        """The scheduler: each waiting pod to some node of its class with room."""
        moved = False
        for pod in [p for p in self.pods if p.node is None]:
            free = self.free()
            row = self.rows.get(pod.slice)
            fitting = [
                n
                for n, (c, _) in sorted(self.nodes.items())
                if row and c == row.node_class and free[n] >= pod.gpus
            ]
            pod.refused = not fitting
            if fitting:
                pod.node = fitting[prefer % len(fitting)]
                moved = True
        return moved

    def start(self, count: int | None = None) -> bool:
        waiting = [
            p
            for p in self.pods
            if p.node and not p.ready and not p.ending and self._revision(p) not in self.broken
        ]
        for pod in waiting[:count]:
            pod.ready = True
        return bool(waiting[:count])

    def end(self, count: int | None = None) -> bool:
        ending = [p for p in self.pods if p.ending][:count]
        for pod in ending:
            self.pods.remove(pod)
        return bool(ending)

    def hiccup(self, choice: int) -> None:
        ready = [p for p in self.pods if p.ready]
        if ready:
            ready[choice % len(ready)].ready = False

    def _revision(self, pod: Pod) -> str | None:
        row = self.rows.get(pod.slice)
        return row.revision if row else None

    def run(self, passes: int = 400) -> None:
        """Let everything happen in turn until nothing moves any more."""
        for _ in range(passes):
            moved = self.pass_once()
            for step in (self.control, self.schedule, self.start, self.end):
                moved |= step()
            if not moved:
                return
        raise AssertionError(f"still moving after {passes} passes: {self.last}")

    def serving(self, pool: str) -> int:
        """Ready pods of a pool that have a partner of their own revision."""
        ready: dict[tuple[str, str], int] = {}
        for pod in self.pods:
            row = self.rows.get(pod.slice)
            if pod.ready and row:
                ready[row.pool, row.revision] = ready.get((row.pool, row.revision), 0) + 1
        pair = {"prefill", "decode"}
        needs = pair if pool in pair else {pool}
        return sum(
            count
            for (name, revision), count in ready.items()
            if name == pool and all(ready.get((other, revision)) for other in needs)
        )

    def settled(self) -> bool:
        return self.last is not None and self.last.state == State.SETTLED


def check(model: ClusterModel, before: list[Slice], decision: Decision) -> None:
    """The promises that every single decision keeps."""
    limits = model.spec.limits()
    replaces = any(max(s.asked, s.live) > s.target for s in before)
    for pool in {s.pool for s in before}:
        own = [s for s in before if s.pool == pool]
        asked = {s.name: decision.replicas[s.name] for s in own}
        ready_before = sum(min(s.ready, s.asked) for s in own)
        ready_after = sum(min(s.ready, asked[s.name]) for s in own)
        if pool in limits:
            if model.spec.strategy == "RollingUpdate":
                least = min(ready_before, limits[pool].least_ready)
                assert ready_after >= least, f"{pool}: too few ready pods: {decision}"
            if replaces:
                held_before = sum(max(s.asked, s.live) for s in own)
                held = sum(max(asked[s.name], s.live) for s in own)
                allowed = max(held_before, limits[pool].replicas + limits[pool].surge)
                assert held <= allowed, f"{pool}: more than the surge: {decision}"
        for s in own:
            assert 0 <= asked[s.name] <= max(s.asked, s.target), f"{s.name}: grows beyond target"
    for name in decision.delete:
        gone = next(s for s in before if s.name == name)
        assert gone.live == gone.ending == gone.target == 0, f"{name} still has pods"
