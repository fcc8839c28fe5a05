"""Rollouts that cannot go as they are asked for."""

from collections.abc import Iterator, Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import nodes
from tidegate.core.admission.finding import Finding, refusal, warning
from tidegate.core.canary import limits, needs, policy
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan

_BUDGET = "spec.rollout.gpuBudget"


def check(spec: LLMDeploymentSpec, *, can_judge: bool = False) -> Iterator[Finding]:
    """Yield why a canary could never run as it is asked for, in so many words or by default."""
    if spec.rollout.strategy == "Canary" and not spec.gate.enabled:
        yield refusal(
            Reason.CANARY_IMPOSSIBLE,
            "spec.rollout.strategy",
            "a canary gets its share of the requests at the gate, and spec.gate.enabled is false",
            "turn the gate on, or set strategy to RollingUpdate",
        )
    if spec.rollout.strategy != "Canary" and not _is_canary(spec, can_judge=can_judge):
        return
    stuck = list(_without_room(spec))
    yield from stuck or _idle_budget(spec)


def check_on_nodes(
    spec: LLMDeploymentSpec,
    plan: Plan | None,
    known: Sequence[Node] | None,
    *,
    can_judge: bool = False,
) -> Iterator[Finding]:
    """Yield why a canary would wait on these nodes even if nothing else ran on them."""
    if plan is None or known is None or not _is_canary(spec, can_judge=can_judge):
        return
    all_gpus = nodes.free_gpus(known, (), None, None)
    left = needs.beside_replicas(spec, plan, known, all_gpus)
    found = needs.of(spec, plan, known, left)
    free = _gpus(sum(max(0, count) for count in left.values()))
    if not found.is_possible:
        yield warning(
            Reason.CANARY_IMPOSSIBLE,
            "spec.rollout",
            f"a canary may take {_gpus(found.allowed_gpus)} beside the replicas, which leave "
            f"{free} of the nodes that are there, and no old pod may give way: it waits until "
            "nodes are added",
            "add nodes, lower replicas or the last weight, or let an old pod give way "
            "(maxUnavailable)",
        )


def _is_canary(spec: LLMDeploymentSpec, *, can_judge: bool) -> bool:
    return policy.strategy_of(spec, can_judge=can_judge) == "Canary"


def _without_room(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield the pools whose canary takes every place, though one old pod must serve."""
    rollout, gpus = spec.rollout, limits.gpus(spec)
    field = "spec.rollout.maxSurge" if rollout.gpu_budget is None else _BUDGET
    weight = rollout.steps[-1].weight
    for name, replicas in _stuck(spec).items():
        each, lower = _gpus(gpus[name]), ""
        why = f"the one pod of {name} must serve while a canary of {each} stands beside it"
        if replicas > 1:
            why = (
                f"a canary with {weight} % has all {replicas} pods of {name} ({each} each), and an "
                "old one must serve beside them"
            )
            lower = f"lower the last weight to {_most_percent(replicas)}, "
        yield refusal(
            Reason.CANARY_IMPOSSIBLE,
            field,
            why,
            f"raise it to {_needed(spec, gpus)}, {lower}raise replicas, or set strategy to "
            "RollingUpdate",
        )


def _stuck(spec: LLMDeploymentSpec) -> dict[str, int]:
    """Return the replicas of the pools in which the last step leaves no place for an old pod."""
    replicas = {name: pool.replicas for name, pool in spec.pools.by_name().items()}
    allowed, weight = limits.of(spec, replicas), spec.rollout.steps[-1].weight
    return {
        name: count
        for name, count in replicas.items()
        if count and not allowed[name].surge and weight > _most_percent(count)
    }


def _most_percent(replicas: int) -> int:
    """Return the largest weight whose share of the pods leaves one of them to stable."""
    return 100 * (replicas - 1) // replicas


def _idle_budget(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield a budget that pays for no pod at all: whoever wrote it expects it to."""
    budget, gpus = spec.rollout.gpu_budget, limits.gpus(spec)
    smallest = min(gpus, key=lambda name: gpus[name])
    if budget and budget < gpus[smallest]:
        yield refusal(
            Reason.CANARY_IMPOSSIBLE,
            _BUDGET,
            f"it pays for no pod: the smallest, of {smallest}, takes {_gpus(gpus[smallest])}",
            f"set it to {gpus[smallest]} or more, or to 0 to take from the old pods",
        )


def _needed(spec: LLMDeploymentSpec, gpus: dict[str, int]) -> int:
    """Return the least value of the field with which every pool has room for one pod more."""
    stuck = _stuck(spec)
    if spec.rollout.gpu_budget is None:
        return 1
    return sum(gpus.values()) if len(stuck) < len(gpus) else sum(gpus[name] for name in stuck)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
