"""From what a pass has found and decided to what its status tells."""

from collections.abc import Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.rollout_spec import RolloutSpec
from tidegate.core.causes import Cause
from tidegate.core.checks import Severity, Verdict
from tidegate.core.plan import Plan
from tidegate.core.rollout.board import PAIR
from tidegate.core.rollout.slices import Decision
from tidegate.core.status import PoolPods, Seen, Trouble
from tidegate.flow import failing, slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Clock, Cluster, Document

_POOLS = ("unified", "prefill", "decode")


async def seen(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec | None,
    plan: Plan | None,
    decision: Decision | None,
    verdicts: Sequence[Verdict],
    trouble: Trouble | None,
    cluster: Cluster,
    clock: Clock,
    memory: Memory,
) -> Seen:
    """Return the input of the status; only pods of the current revision are asked for causes."""
    ready = slices.ready_pods(snapshot.pods)
    cause: Cause | None = None
    progress: float | None = None
    if trouble is None and plan is not None:
        cause = await failing.worst(
            snapshot.ref,
            _of_revision(snapshot.pods, plan.revision),
            _of_revision(snapshot.slices, plan.revision),
            cluster,
            clock,
            memory,
        )
        progress = slices.last_progress(snapshot, plan.revision)
    return Seen(
        generation=snapshot.document["metadata"]["generation"],
        pools=_pools(snapshot, spec, plan, ready),
        is_serving=_is_serving(ready),
        plan=plan,
        decision=decision,
        warnings=tuple(v.line for v in verdicts if v.severity is Severity.WARN),
        trouble=trouble,
        cause=cause,
        last_progress=progress,
        progress_deadline_seconds=(spec.rollout if spec else RolloutSpec()).progress_deadline,
    )


def _pools(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec | None,
    plan: Plan | None,
    ready: Sequence[Document],
) -> tuple[PoolPods, ...]:
    deployments = snapshot.slices
    there = {slices.pool_of(found) for found in deployments}
    named = spec.pools.by_name() if spec else [name for name in _POOLS if name in there]
    revision = plan.revision if plan else ""
    return tuple(
        PoolPods(
            name=name,
            revision=revision,
            desired=_desired(name, spec, plan, deployments),
            ready=sum(slices.pool_of(pod) == name for pod in ready),
            updated=sum(
                slices.pool_of(pod) == name and slices.revision_of(pod) == revision for pod in ready
            ),
        )
        for name in named
    )


def _desired(
    name: str,
    spec: LLMDeploymentSpec | None,
    plan: Plan | None,
    deployments: Sequence[Document],
) -> int:
    """Pods that are asked for: by the plan, without one by the spec, else by what is there."""
    if plan:
        return sum(entry.replicas for entry in plan.of_pool(name))
    if spec:
        return spec.pools.by_name()[name].replicas
    return sum(
        int(found["spec"].get("replicas", 0))
        for found in deployments
        if slices.pool_of(found) == name
    )


def _is_serving(ready: Sequence[Document]) -> bool:
    """Say whether one revision has a ready pod in each of its pools."""
    pools: dict[str, set[str]] = {}
    for pod in ready:
        pools.setdefault(slices.revision_of(pod), set()).add(slices.pool_of(pod))
    return any("unified" in found or found >= PAIR for found in pools.values())


def _of_revision(documents: Sequence[Document], revision: str) -> list[Document]:
    return [found for found in documents if slices.revision_of(found) == revision]
