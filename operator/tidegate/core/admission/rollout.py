"""Rollouts that cannot go as they are asked for."""

from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal
from tidegate.core.canary import policy
from tidegate.core.rollout.slices import limits


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield why a canary that is asked for in so many words could never run."""
    rollout = spec.rollout
    if rollout.strategy != "Canary":
        return
    if not spec.gate.enabled:
        yield refusal(
            Reason.CANARY_IMPOSSIBLE,
            "spec.rollout.strategy",
            "a canary gets its share of the requests at the gate, and spec.gate.enabled is false",
            "turn the gate on, or set strategy to RollingUpdate",
        )
    yield from _without_room(spec)


def _without_room(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield the pools of one pod beside which the budget allows no second one."""
    rollout, pools = spec.rollout, spec.pools.by_name()
    gpus = {name: pool.tensor_parallel * pool.pipeline_parallel for name, pool in pools.items()}
    surge = {
        name: limits(pool.replicas, rollout.max_surge, rollout.max_unavailable).surge
        for name, pool in pools.items()
    }
    extra = policy.extra_pods(rollout, gpus, surge)
    field = "spec.rollout.maxSurge" if rollout.gpu_budget is None else "spec.rollout.gpuBudget"
    for name, pool in pools.items():
        if pool.replicas == 1 and not extra[name]:
            yield refusal(
                Reason.CANARY_IMPOSSIBLE,
                field,
                f"the one pod of {name} must serve while a canary of {gpus[name]} "
                f"{'GPU' if gpus[name] == 1 else 'GPUs'} stands beside it",
                f"raise it to {_needed(spec, gpus)}, raise replicas, or set strategy to "
                "RollingUpdate",
            )


def _needed(spec: LLMDeploymentSpec, gpus: dict[str, int]) -> int:
    """Return the least value of the field with which every pool of one pod has room."""
    single = [name for name, pool in spec.pools.by_name().items() if pool.replicas == 1]
    if spec.rollout.gpu_budget is None:
        return 1
    return sum(gpus.values()) if len(single) < len(gpus) else sum(gpus[name] for name in single)
