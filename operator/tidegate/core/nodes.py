"""Nodes as the planner sees them: what each offers of one kind of GPU, and what of it is free."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.api.quantities import parse_quantity
from tidegate.core import node_class as classification
from tidegate.core.names import GPU_RESOURCE
from tidegate.core.node_class import (
    COUNT_LABEL,
    MAJOR_LABEL,
    MEMORY_LABEL,
    MINOR_LABEL,
    PRODUCT_LABEL,
    NodeClass,
    NodeClassSetting,
    classify,
    is_gpu_resource,
    memory_mib,
)

__all__ = [
    "COUNT_LABEL",
    "MAJOR_LABEL",
    "MEMORY_LABEL",
    "MINOR_LABEL",
    "PRODUCT_LABEL",
    "GpuPod",
    "Node",
    "NodeClass",
    "NodeClassSetting",
    "classes",
    "classify",
    "free_gpus",
    "gpus_of_pod",
    "is_gpu_resource",
    "memory_mib",
    "name_of_offer",
    "offers",
    "read",
]


@dataclass(frozen=True)
class Node:
    """What one node offers of one kind of GPU: all that a pod's placement depends on.

    A node whose cards are cut into several kinds of MIG device is several of these, of which all
    but whole cards have the resource in their `name` (`name_of_offer`). `gpus` and `memory_bytes`
    (of the host) are allocatable, not what is free; None is not told.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    schedulable: bool
    gpus: int
    node_class: NodeClass | None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class GpuPod:
    """A pod of the cluster, anybody's, that has not ended and asks for GPUs of one resource.

    `deployment` is the LLMDeployment (in the pod's namespace) that it belongs to, if any.
    """

    namespace: str
    name: str
    node: str | None
    gpus: int
    deployment: str | None = None
    resource: str = GPU_RESOURCE


def free_gpus(
    nodes: Sequence[Node], pods: Iterable[GpuPod], namespace: str | None, deployment: str | None
) -> dict[str, int]:
    """Return by name the GPUs that no pod holds; those of one deployment count as free.

    A cordoned node takes no new pods: only what the deployment holds there already is its own.
    """
    held = {node.name: [0, 0] for node in nodes}  # by others, by the deployment
    for pod in pods:
        name = name_of_offer(pod.node, pod.resource) if pod.node else None
        if name in held:
            owner = (pod.namespace, pod.deployment)
            ours = pod.deployment is not None and owner == (namespace, deployment)
            held[name][ours] += pod.gpus
    return {
        node.name: node.gpus - held[node.name][0] if node.schedulable else held[node.name][1]
        for node in nodes
    }


def gpus_of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return what a pod asks for, by resource: all containers, or one that runs before them."""
    asked: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for resource, count in _asked(container).items():
            asked[resource] = asked.get(resource, 0) + count
    for container in spec.get("initContainers") or ():
        for resource, count in _asked(container).items():
            asked[resource] = max(asked.get(resource, 0), count)
    return asked


def _asked(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    amounts = (resources.get("limits") or {}) | (resources.get("requests") or {})
    found = {
        name: classification.integer(n) for name, n in amounts.items() if is_gpu_resource(name)
    }
    return {name: count for name, count in found.items() if count}


def name_of_offer(node: str, resource: str) -> str:
    """Return the name of what a node offers of a resource: its own for whole cards."""
    return node if resource == GPU_RESOURCE else f"{node}/{resource.partition('/')[2]}"


def read(document: Mapping[str, Any], settings: Sequence[NodeClassSetting] = ()) -> Node:
    """Read a node that offers one kind of GPU; the first kind of several."""
    return offers(document, settings)[0]


def offers(
    document: Mapping[str, Any], settings: Sequence[NodeClassSetting] = ()
) -> tuple[Node, ...]:
    """Read a Node as the API server sends it: one for each kind of GPU, whole cards first.

    One at least: a node without GPUs offers none of whole cards. A GPU that is not known has no
    class.
    """
    metadata, spec = document["metadata"], document.get("spec") or {}
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    counts = {
        resource: count
        for resource, amount in sorted(allocatable.items())
        if is_gpu_resource(resource) and (count := classification.integer(amount))
    }
    return tuple(
        Node(
            name=name_of_offer(metadata["name"], resource),
            labels=labels,
            taints=tuple(spec.get("taints") or ()),
            schedulable=not spec.get("unschedulable", False),
            gpus=count,
            node_class=classify(labels, count, settings, resource),
            memory_bytes=_bytes(allocatable.get("memory")),
        )
        for resource, count in (counts or {GPU_RESOURCE: 0}).items()
    )


def classes(nodes: Iterable[Node]) -> dict[str, NodeClass]:
    """Return the classes of the nodes by name, in the order of their names."""
    found = {node.node_class.name: node.node_class for node in nodes if node.node_class}
    return dict(sorted(found.items()))


def _bytes(text: Any) -> int | None:
    """Read a quantity of bytes; None for none, and for one that makes no sense."""
    try:
        return int(parse_quantity(text)) if text is not None else None
    except ValueError:
        return None
