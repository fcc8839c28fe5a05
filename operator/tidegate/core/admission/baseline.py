"""Baselines of canaries that can never come: the spec is let in, and what is missing is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.api.rollout_spec import RolloutSpec
from tidegate.core.admission.finding import Finding, warning
from tidegate.core.canary import policy, targets
from tidegate.core.rollout.slices import limits

_LAST_STABLE = 1
_LEAST_BASELINE = 1


@dataclass(frozen=True)
class _Need:
    """What the heaviest step needs of a pool: pods of the canary, and all pods together."""

    replicas: int
    canary: int
    gpus: int
    surge: int

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
    may = _extra(rollout, needs)
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
                f"raise it to {_enough(rollout, needs)}, raise replicas, or leave baseline out",
            )


def _needs(spec: LLMDeploymentSpec) -> dict[str, _Need]:
    rollout = spec.rollout
    return {
        name: _Need(
            pool.replicas,
            targets.of_weight(rollout.steps[-1].weight * 10, pool.replicas),
            pool.tensor_parallel * pool.pipeline_parallel,
            limits(pool.replicas, rollout.max_surge, rollout.max_unavailable).surge,
        )
        for name, pool in spec.pools.by_name().items()
    }


def _extra(rollout: RolloutSpec, needs: Mapping[str, _Need]) -> dict[str, int]:
    return policy.extra_pods(
        rollout,
        {name: need.gpus for name, need in needs.items()},
        {name: need.surge for name, need in needs.items()},
    )


def _enough(rollout: RolloutSpec, needs: Mapping[str, _Need]) -> int:
    """Return the least value of the field with which every pool has room."""
    most = max(need.extra for need in needs.values())
    if rollout.gpu_budget is None:
        return most
    at_most = most * sum(need.gpus for need in needs.values())
    return next(
        budget
        for budget in range(rollout.gpu_budget, at_most + 1)
        if all(
            pods >= needs[name].extra
            for name, pods in _extra(
                rollout.model_copy(update={"gpu_budget": budget}), needs
            ).items()
        )
    )
