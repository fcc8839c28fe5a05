"""Where a slice's pods may land: the class's labels, the pool's own conditions, an even spread."""

from typing import Any

from tidegate.api.pool_spec import NodeRequirement, Pool, Toleration
from tidegate.core.nodes import NodeClass

_HOST = "kubernetes.io/hostname"


def affinity(node_class: NodeClass, pool: Pool) -> dict[str, Any]:
    """Return the affinity to nodes of the class that also meet the pool's conditions."""
    of_class = [
        {"key": key, "operator": "In", "values": [value]} for key, value in node_class.requirements
    ]
    of_pool = [_expression(requirement) for requirement in pool.node_affinity]
    term = {"matchExpressions": of_class + of_pool}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def tolerations(pool: Pool) -> list[dict[str, Any]] | None:
    """Return the taints that the pods accept; None when there are none."""
    return [_toleration(entry) for entry in pool.tolerations] or None


def spread(labels: dict[str, str]) -> list[dict[str, Any]]:
    """Return the wish to spread the slice over its nodes; a full node does not block a pod."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": _HOST,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def _expression(requirement: NodeRequirement) -> dict[str, Any]:
    expression = requirement.wire()
    if not expression["values"]:
        del expression["values"]  # Exists and DoesNotExist take none
    return expression


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return toleration.wire()
