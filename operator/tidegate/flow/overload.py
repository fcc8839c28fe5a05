"""One tick of the slow loop: one question for all deployments, then a decision for each.

It writes nothing. Whose decision has changed is to be woken: its pass writes the shares into the
gates' configuration and the rest into status. A tick at rest wakes nobody.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from tidegate.api import llmdeployment
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import allowed, conditions, pressure, to_status
from tidegate.core.overload.complete import complete
from tidegate.core.overload.decide import decide
from tidegate.core.overload.decision import Decision, Headroom, Tick, Timers, Traffic
from tidegate.core.overload.last_known import bridged
from tidegate.core.overload.load import Load, spare_per_second
from tidegate.core.overload.signal import Signals
from tidegate.core.status.conditions import Verdict, find
from tidegate.errors import Invalid
from tidegate.flow import telling, unseen
from tidegate.flow.memory import Memory
from tidegate.flow.overload_memory import OverloadMemory, Overseen
from tidegate.flow.ports import Clock, Cluster, Document, Metrics, Ref, Settings


@dataclass
class Ticked:
    """Who is to be woken, and for whom the tick failed: a bug, which leaves the others alone."""

    wake: list[Ref] = field(default_factory=list)
    failed: dict[Ref, Exception] = field(default_factory=dict)


async def tick(
    cluster: Cluster, metrics: Metrics, clock: Clock, settings: Settings, memory: Memory
) -> Ticked:
    """Ask once, decide for each deployment."""
    told = await metrics.signals(clock.now())
    look = _Look(cluster, metrics, told, clock.now(), settings.tick, memory.overload)
    ticked = Ticked()
    refs = sorted(cluster.refs())
    for ref in set(memory.overload.seen) - set(refs):
        memory.overload.forget(ref)
    for ref in refs:
        try:
            if look.oversee(ref):
                ticked.wake.append(ref)
        except Exception as error:  # a bug: the shares of this one lapse, those of others do not
            ticked.failed[ref] = error
    return ticked


def decision_of(ref: Ref, document: Document, memory: OverloadMemory) -> Decision | None:
    """Return what holds for a deployment: before a process's first tick, what its status says."""
    seen = memory.of(ref, document)
    if seen is not None:
        return seen.decision
    before = telling.previous(document)
    if before is None or before.overload is None:
        return None
    return to_status.restore(before.overload)


@dataclass(frozen=True)
class _Look:
    """One tick under way."""

    cluster: Cluster
    metrics: Metrics
    told: Mapping[Ref, Signals]
    now: float
    tick: Tick
    memory: OverloadMemory

    def oversee(self, ref: Ref) -> bool:
        """Decide for a deployment; say whether its pass has something to write."""
        document, spec = self._read(ref)
        if document is None or spec is None or not spec.gate.enabled:
            return self.memory.seen.pop(ref, None) is not None
        before = self.memory.of(ref, document)
        seen = self._decided(ref, document, spec, before)
        self.memory.seen[ref] = seen
        return before is None or (before.decision, before.metrics) != (seen.decision, seen.metrics)

    def _decided(
        self, ref: Ref, document: Document, spec: LLMDeploymentSpec, before: Overseen | None
    ) -> Overseen:
        signals, uid = self._signals(ref, document, spec), document["metadata"]["uid"]
        held = decision_of(ref, document, self.memory) or Decision()
        metrics = self._available(document, spec, signals, before, held)
        timers = before.timers if before else Timers()
        load = self.metrics.loads().get(ref)
        decision, timers = decide(
            spec.overload,
            signals,
            lambda to: self._headroom(ref, Ref(ref.namespace, to)),
            held,
            timers,
            self.now,
            self.tick,
            Traffic(load.requests_per_second, load.admitted_per_second) if load else Traffic(),
        )
        if self._is_off(decision):
            return Overseen(None, Timers(), signals, metrics, self.now, uid)
        return Overseen(decision, timers, signals, metrics, self.now, uid)

    def _is_off(self, decision: Decision) -> bool:
        """Say whether there is no Prometheus to decide by, nor a lever or what one has left."""
        silence = self.metrics.why_silent()
        is_unconfigured = silence is not None and silence.reason is Reason.METRICS_UNCONFIGURED
        is_needed = decision.state == "Override" or decision.has_shares or decision.refused
        return is_unconfigured and not is_needed

    def _available(
        self,
        document: Document,
        spec: LLMDeploymentSpec,
        signals: Signals,
        before: Overseen | None,
        held: Decision,
    ) -> Verdict:
        """Return the condition MetricsAvailable, in its first words while nothing new is in it."""
        silent, has_shares = self.metrics.why_silent(), held.has_shares
        verdict = conditions.metrics_available(
            spec.overload, signals, silent, has_shares=has_shares
        )
        if verdict.reason == Reason.METRICS_MISSING and not _has_ready_pods(document):
            message = "No pod is ready, so there is nothing to measure."
            verdict = replace(verdict, status="Unknown", message=message)
        if before is not None:
            return conditions.steady(verdict, before.metrics)
        status = telling.previous(document)
        stored = find(status.conditions, verdict.type) if status else None
        return conditions.steady(verdict, stored)

    def _signals(self, ref: Ref, document: Document, spec: LLMDeploymentSpec) -> Signals:
        pools = [name for name, pool in spec.pools.by_name().items() if pool.replicas]
        signals = complete(self.told.get(ref), pools, self.metrics.why_silent())
        unseen.mark(signals, ref, spec.overload, self.cluster, self.metrics, self.tick, self.now)
        before = self.memory.of(ref, document)
        return bridged(signals, before.signals if before else {}, self.now, self.tick)

    def _headroom(self, ref: Ref, target: Ref) -> Headroom:
        """Return what another deployment can take, from what this tick was told of it."""
        document, spec = self._read(target)
        if document is None or spec is None or not _serves(spec, document):
            return Headroom(exists=False)
        loads = self.metrics.loads()
        load, own = loads.get(target), loads.get(ref)
        seen = pressure.read(spec.overload, self._signals(target, document, spec))
        held = decision_of(target, document, self.memory)
        return Headroom(
            exists=True,
            requests_per_second=_spare(
                load, own, spec.overload.kv_usage.exit, self._senders[target]
            ),
            of_requests_per_second=own.requests_per_second if own else None,
            stands=seen.stands,
            shifts=_shifts(held, ref),
            shed_percent=held.shed_percent if held else 0,
        )

    @cached_property
    def _senders(self) -> Counter[Ref]:
        """How many deployments send requests to each, or will: its room is for all of them."""
        return Counter(
            Ref(ref.namespace, to) for ref in self.cluster.refs() if (to := self._sends_to(ref))
        )

    def _sends_to(self, ref: Ref) -> str:
        document, spec = self._read(ref)
        if document is None or spec is None:
            return ""
        held = decision_of(ref, document, self.memory)
        if held is not None and held.shift_to:
            return held.shift_to
        bounds = allowed.of_spec(spec.overload)
        if not bounds.shift:
            return ""
        seen = pressure.read(spec.overload, self._signals(ref, document, spec))
        return bounds.to if seen.is_over else ""

    def _read(self, ref: Ref) -> tuple[Document | None, LLMDeploymentSpec | None]:
        """Return a deployment and its spec; None for one that is going or cannot be read."""
        document = self.cluster.deployment(ref)
        if document is None or "deletionTimestamp" in document["metadata"]:
            return None, None
        identity = document["metadata"]["uid"], document["metadata"]["generation"]
        known = self.memory.specs.get(ref)
        if known is None or known[0] != identity:
            known = self.memory.specs[ref] = identity, _parsed(document)
        return document, known[1]


def _parsed(document: Document) -> LLMDeploymentSpec | None:
    try:
        return llmdeployment.parse(document).spec
    except Invalid:
        return None


def _serves(spec: LLMDeploymentSpec, document: Document) -> bool:
    """Say whether a deployment has a gate that is ready, as its own pass has told."""
    gate = (document.get("status") or {}).get("gate") or {}
    return spec.gate.enabled and bool(gate.get("ready"))


def _has_ready_pods(document: Document) -> bool:
    pools = (document.get("status") or {}).get("pools") or ()
    return any(pool.get("ready") for pool in pools)


def _shifts(held: Decision | None, source: Ref) -> Literal["nowhere", "elsewhere", "back"]:
    if held is None or not held.shift_percent:
        return "nowhere"
    return "back" if held.shift_to == source.name else "elsewhere"


def _spare(target: Load | None, source: Load | None, budget: float, senders: int) -> float | None:
    """Return one's part of the room, in requests a second; None where nothing tells."""
    spare = None if target is None else spare_per_second(target, source, budget)
    return None if spare is None else spare / max(1, senders)
