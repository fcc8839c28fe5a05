"""How far a rollout may go above and below the replicas of each pool, as the spec has it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.canary import policy
from tidegate.core.rollout import slices
from tidegate.core.rollout.slices import PoolLimits, Slice


def of(
    spec: LLMDeploymentSpec, replicas: Mapping[str, int], there: Iterable[Slice] = ()
) -> dict[str, PoolLimits]:
    """Return how far the rollout of each pool may go above and below its replicas.

    What is above may be pods of a baseline, too, as large as those of the slices that are there.
    """
    rollout = spec.rollout
    found = {
        name: slices.limits(count, rollout.max_surge, rollout.max_unavailable)
        for name, count in replicas.items()
    }
    if rollout.gpu_budget is None:
        return found
    largest = gpus(spec)
    for of in there if rollout.baseline else ():
        if of.pool in largest:
            largest[of.pool] = max(largest[of.pool], of.gpus)
    extra = policy.extra_pods(rollout, largest, {name: of.surge for name, of in found.items()})
    return {
        name: replace(
            of,
            surge=extra[name],
            unavailable=of.unavailable or int(extra[name] == 0),
            counts_ending=True,
        )
        for name, of in found.items()
    }


def gpus(spec: LLMDeploymentSpec) -> dict[str, int]:
    """Return the GPUs of one pod of each pool."""
    pools = spec.pools.by_name()
    return {name: pool.tensor_parallel * pool.pipeline_parallel for name, pool in pools.items()}
