"""Baselines of canaries that can never come: the spec is let in, and what is missing is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, warning
from tidegate.core.canary import limits, policy, targets

_LAST_STABLE = 1
_LEAST_BASELINE = 1


@dataclass(frozen=True)
class _Need:
    """What the heaviest step needs of a pool: pods of the canary, beside its replicas."""

    replicas: int
    canary: int

    @property
    def extra(self) -> int:
        """Pods above the replicas, with one of the baseline and one of stable."""
        return max(0, self.canary + _LEAST_BASELINE + _LAST_STABLE - self.replicas)


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield why a baseline that is asked for would never come, though a canary may."""
    rollout = spec.rollout
    if not rollout.baseline or policy.strategy_of(spec, can_judge=True) != "Canary":
        return
    if not policy.of(spec, can_judge=True).has_baseline:
        yield warning(
            Reason.BASELINE_IMPOSSIBLE,
            "spec.rollout.baseline",
            "no step has analysis, so nothing is compared and no baseline comes",
            "give a step analysis instead of pause, or leave baseline out",
        )
        return
    yield from _without_room(spec)


def _without_room(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield the pools whose budget can never hold a canary, a baseline and a stable pod."""
    rollout, needs = spec.rollout, _needs(spec)
    may = _extra(spec)
    field = "spec.rollout.maxSurge" if rollout.gpu_budget is None else "spec.rollout.gpuBudget"
    for name, need in needs.items():
        if may[name] < need.extra:
            weight = rollout.steps[-1].weight
            yield warning(
                Reason.BASELINE_IMPOSSIBLE,
                field,
                f"at {weight} % of the requests {name} needs {need.replicas + need.extra} pods "
                f"({need.canary} of the canary, 1 of its baseline, 1 of stable) and may have "
                f"{need.replicas + may[name]}, so the rollout would wait there",
                f"raise it to {_enough(spec, needs)}, raise replicas, or leave baseline out",
            )


def _needs(spec: LLMDeploymentSpec) -> dict[str, _Need]:
    weight = spec.rollout.steps[-1].weight * 10
    return {
        name: _Need(pool.replicas, targets.of_weight(weight, pool.replicas))
        for name, pool in spec.pools.by_name().items()
    }


def _extra(spec: LLMDeploymentSpec) -> dict[str, int]:
    """Return the pods of each pool that a rollout may have above the replicas."""
    replicas = {name: pool.replicas for name, pool in spec.pools.by_name().items()}
    return {name: of.surge for name, of in limits.of(spec, replicas).items()}


def _enough(spec: LLMDeploymentSpec, needs: Mapping[str, _Need]) -> int:
    """Return the least value of the field with which every pool has room."""
    most, budget = max(need.extra for need in needs.values()), spec.rollout.gpu_budget
    if budget is None:
        return most
    at_most = most * sum(limits.gpus(spec).values())
    return next(
        more for more in range(budget, at_most + 1) if _is_enough(_with_budget(spec, more), needs)
    )


def _is_enough(spec: LLMDeploymentSpec, needs: Mapping[str, _Need]) -> bool:
    return all(pods >= needs[name].extra for name, pods in _extra(spec).items())


def _with_budget(spec: LLMDeploymentSpec, gpus: int) -> LLMDeploymentSpec:
    rollout = spec.rollout.model_copy(update={"gpu_budget": gpus})
    return spec.model_copy(update={"rollout": rollout})
