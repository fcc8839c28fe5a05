"""Nodes as the planner sees them, and the classes that they fall into.

A node class is a set of nodes whose GPUs are alike: product, memory and GPUs per node. Its name is
made of these alone, so it does not change with what else is in the cluster.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.api.figures import exact
from tidegate.api.quantities import parse_quantity
from tidegate.core.names import GPU_RESOURCE
from tidegate.facts import gpus
from tidegate.facts.gpus import Gpu

PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
COUNT_LABEL = "nvidia.com/gpu.count"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
MAJOR_LABEL = "nvidia.com/gpu.compute.major"
MINOR_LABEL = "nvidia.com/gpu.compute.minor"


@dataclass(frozen=True)
class NodeClassSetting:
    """A class that the operator's settings declare, for nodes whose labels tell no GPU."""

    match_labels: Mapping[str, str]
    product: str
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class NodeClass:
    """Nodes whose GPUs are alike; `requirements` are the labels (key, value) that select them."""

    name: str
    product: str
    gpu: Gpu
    gpus_per_node: int
    requirements: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Node:
    """One node: what a pod's placement depends on.

    `gpus` and `memory_bytes` (of the host) are allocatable, not what is free; None is not told.
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
    """A pod of the cluster, anybody's, that has not ended and asks for GPUs.

    `deployment` is the LLMDeployment (in the pod's namespace) that it belongs to, if any.
    """

    namespace: str
    name: str
    node: str | None
    gpus: int
    deployment: str | None = None


def free_gpus(
    nodes: Sequence[Node], pods: Iterable[GpuPod], namespace: str | None, deployment: str | None
) -> dict[str, int]:
    """Return by node the GPUs that no pod holds; those of one deployment count as free.

    A cordoned node takes no new pods: only what the deployment holds there already is its own.
    """
    held = {node.name: [0, 0] for node in nodes}  # by others, by the deployment
    for pod in pods:
        if pod.node in held:
            owner = (pod.namespace, pod.deployment)
            ours = pod.deployment is not None and owner == (namespace, deployment)
            held[pod.node][ours] += pod.gpus
    return {
        node.name: node.gpus - held[node.name][0] if node.schedulable else held[node.name][1]
        for node in nodes
    }


def read(document: Mapping[str, Any], settings: Sequence[NodeClassSetting] = ()) -> Node:
    """Read a Node as the API server sends it; a node without a known GPU has no class."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    status = document.get("status") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    allocatable = status.get("allocatable") or {}
    count = _integer(allocatable.get(GPU_RESOURCE)) or 0
    return Node(
        name=metadata["name"],
        labels=labels,
        taints=tuple(spec.get("taints") or ()),
        schedulable=not spec.get("unschedulable", False),
        gpus=count,
        node_class=classify(labels, count, settings),
        memory_bytes=_bytes(allocatable.get("memory")),
    )


def classify(
    labels: Mapping[str, str], gpu_count: int, settings: Sequence[NodeClassSetting] = ()
) -> NodeClass | None:
    """Return a node's class by the settings, else by its labels, else by its cloud's labels."""
    declared = next(
        (s for s in settings if all(labels.get(k) == v for k, v in s.match_labels.items())), None
    )
    if declared is not None:
        return _declared_class(declared, labels, gpu_count)
    product = labels.get(PRODUCT_LABEL)
    if product and not product.endswith("MIG-INVALID"):
        return _labelled_class(product, labels, gpu_count)
    return _cloud_class(labels)


def _labelled_class(product: str, labels: Mapping[str, str], gpu_count: int) -> NodeClass | None:
    size_mib = memory_mib(labels)
    if size_mib is None and MEMORY_LABEL in labels:
        return None  # the catalogue's size is a guess against what the node says
    gpu = gpus.find(product, size_mib)
    if gpu is None and size_mib:
        gpu = gpus.unknown(product, size_mib, _capability(labels) or _known_capability(product))
    if gpu is None:
        return None
    keys = [key for key in (PRODUCT_LABEL, MEMORY_LABEL, COUNT_LABEL) if key in labels]
    if labels.get(SHARING_LABEL) == "mps":
        gpu, keys = replace(gpu, is_mps=True), [*keys, SHARING_LABEL]
    return _make(product, gpu, _integer(labels.get(COUNT_LABEL)) or gpu_count, labels, keys)


def _declared_class(
    setting: NodeClassSetting, labels: Mapping[str, str], gpu_count: int
) -> NodeClass | None:
    gpu = gpus.find(setting.product, None)
    if setting.memory_bytes is not None:
        # every memory size of a card has the same speeds
        known = gpu or next(iter(gpus.variants(setting.product)), _blank(setting.product))
        gpu = replace(
            known,
            cuda_total=exact(setting.memory_bytes, "declared by the operator's settings"),
            compute_capability=setting.compute_capability or known.compute_capability,
        )
    if gpu is None:
        return None
    return _make(setting.product, gpu, gpu_count, labels, sorted(setting.match_labels))


def _blank(product: str) -> Gpu:
    """A card of which nothing is known but its name."""
    return gpus.unknown(product, 0, None)


def _cloud_class(labels: Mapping[str, str]) -> NodeClass | None:
    found = gpus.from_cloud_labels(labels)
    gpu = gpus.find(found.product, None) if found else None
    if found is None or gpu is None:
        return None
    return _make(found.product, gpu, found.count, labels, list(found.keys))


def _make(
    product: str, gpu: Gpu, count: int, labels: Mapping[str, str], keys: Sequence[str]
) -> NodeClass:
    slug = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")
    slug += "-mps" if gpu.is_mps else ""  # cards shared by time have the same product label
    size_gib = round(gpu.cuda_total.bytes / 2**30)
    return NodeClass(
        name=f"{slug}-{size_gib}g-x{count}",
        product=product,
        gpu=gpu,
        gpus_per_node=count,
        requirements=tuple((key, labels[key]) for key in keys),
    )


def classes(nodes: Iterable[Node]) -> dict[str, NodeClass]:
    """Return the classes of the nodes by name, in the order of their names."""
    found = {node.node_class.name: node.node_class for node in nodes if node.node_class}
    return dict(sorted(found.items()))


def memory_mib(labels: Mapping[str, str]) -> int | None:
    """Return a card's memory as its label says it; None for no label and for no sane number."""
    return _integer(labels.get(MEMORY_LABEL))


def _known_capability(product: str) -> tuple[int, int] | None:
    """Return the compute capability of a known card, whatever memory it is sold with."""
    return next((gpu.compute_capability for gpu in gpus.variants(product)), None)


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = _integer(labels.get(MAJOR_LABEL)), _integer(labels.get(MINOR_LABEL))
    return (major, minor or 0) if major else None


def _integer(text: Any) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", str(text)) else None


def _bytes(text: Any) -> int | None:
    """Read a quantity of bytes; None for none, and for one that makes no sense."""
    try:
        return int(parse_quantity(text)) if text is not None else None
    except ValueError:
        return None
