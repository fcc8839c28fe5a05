"""What a pass writes of the slow loop: the shares into the gates' configuration, and the status.

The pass decides nothing of it: it carries out what the last tick has left in memory. Before the
first tick of a process everything stays as it is stored.
"""

from tidegate.api.conditions import Condition, ConditionType
from tidegate.api.gate_config import ShedShare, ShiftShare
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.overload_status import OverloadStatus, ReactionStatus
from tidegate.core.overload import conditions, floor, gate_shares, to_status
from tidegate.core.overload.decision import Decision, Tick
from tidegate.core.plan import Plan
from tidegate.core.status import Loop
from tidegate.core.status.conditions import Verdict
from tidegate.flow import overload, telling
from tidegate.flow.gather import Snapshot
from tidegate.flow.overload_memory import OverloadMemory
from tidegate.flow.ports import Cluster, Ref

_KINDS = (
    ConditionType.OVERLOADED,
    ConditionType.TRAFFIC_SHIFTED,
    ConditionType.METRICS_AVAILABLE,
)
_DEFAULT_PORT = 80


def shares(
    snapshot: Snapshot, spec: LLMDeploymentSpec, cluster: Cluster, memory: OverloadMemory
) -> tuple[ShedShare | None, ShiftShare | None]:
    """Return what gates are to turn away, and what another deployment is to serve."""
    decision = overload.decision_of(snapshot.ref, snapshot.document, memory)
    if decision is None:
        return None, None
    to = Ref(snapshot.ref.namespace, decision.shift_to)
    return (
        gate_shares.shed(decision, spec.overload),
        gate_shares.shift(decision, _port(cluster, to)),
    )


def loop(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec | None,
    plan: Plan | None,
    tick: Tick,
    memory: OverloadMemory,
) -> Loop:
    """Return what the status is to tell of the loop; without a gate it has nothing to do."""
    if spec is None:
        return as_before(snapshot)
    if not spec.gate.enabled:
        return Loop()
    seen = memory.of(snapshot.ref, snapshot.document)
    if seen is None:
        return as_before(snapshot)
    if seen.decision is None:
        return Loop(verdicts=(seen.metrics,))
    before = telling.previous(snapshot.document)
    known = before.overload if before else None
    return Loop(
        to_status.make(
            seen.decision,
            spec.overload.override,
            _reaction(spec, plan, tick, known),
        ),
        (*_verdicts(seen.decision), seen.metrics),
    )


def _verdicts(decision: Decision) -> tuple[Verdict, ...]:
    return conditions.overloaded(decision), conditions.traffic_shifted(decision)


def _reaction(
    spec: LLMDeploymentSpec, plan: Plan | None, tick: Tick, before: OverloadStatus | None
) -> ReactionStatus | None:
    """Return how fast the loop can be; without a plan, what was told of the last one."""
    if plan is None:
        return before.reaction if before else None
    return floor.status(spec.overload, floor.reaction(spec.overload, plan, tick), tick)


def as_before(snapshot: Snapshot) -> Loop:
    """Return what the status tells already: gates have nothing newer."""
    status = telling.previous(snapshot.document)
    if status is None:
        return Loop()
    kept = (entry for entry in status.conditions if entry.type in _KINDS)
    return Loop(status.overload, tuple(map(_verdict, kept)))


def _verdict(condition: Condition) -> Verdict:
    kind = ConditionType(condition.type)
    return Verdict(kind, condition.status, condition.reason, condition.message)


def _port(cluster: Cluster, target: Ref) -> int:
    """Return the port of another deployment's gates."""
    document = cluster.deployment(target) or {}
    service = ((document.get("spec") or {}).get("gate") or {}).get("service") or {}
    port = service.get("port", _DEFAULT_PORT)
    return port if isinstance(port, int) else _DEFAULT_PORT
