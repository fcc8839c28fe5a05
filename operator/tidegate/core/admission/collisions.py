"""Objects of others: names that two deployments would give, and pods that others would select."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import names
from tidegate.core.admission import paths
from tidegate.core.admission.facts import Selector
from tidegate.core.admission.finding import Finding, refusal

_POOLS = ("unified", "prefill", "decode")


def of_names(
    name: str, spec: LLMDeploymentSpec, others: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield each other deployment of the namespace that has an object of the same name."""
    ours = _names(name, list(spec.pools.by_name()))
    for other in others:
        other_name = str(paths.value(other, ("metadata", "name")) or "")
        pools = [pool for pool in _POOLS if paths.value(other, ("spec", "pools", pool)) is not None]
        shared = ours & _names(other_name, pools)
        if other_name != name and shared:
            yield refusal(
                Reason.CONFLICT,
                "metadata.name",
                f"the deployment {other_name} has a Service {min(shared)}, too",
                "rename the deployment",
            )


def of_labels(
    name: str, spec: LLMDeploymentSpec, selectors: Sequence[Selector]
) -> Iterator[Finding]:
    """Yield each object of others that would take the pods of a pool for its own."""
    for pool_name, pool in spec.pools.by_name().items():
        labels = {**pool.pod_template.labels, **names.pool_labels(name, pool_name)}
        for selector in selectors:
            wanted = selector.labels
            if wanted and all(labels.get(key) == value for key, value in wanted.items()):
                told = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
                yield refusal(
                    Reason.LABEL_COLLISION,
                    f"spec.pools.{pool_name}.podTemplate.labels",
                    f"the {selector.kind} {selector.name} selects pods by {told}, and would take "
                    f"those of {pool_name} for its own",
                )


def _names(deployment: str, pools: Sequence[str]) -> set[str]:
    """Return the names of a deployment's Services: of its gate, and of each pool."""
    return {deployment, *(names.pool_name(deployment, pool) for pool in pools)}
