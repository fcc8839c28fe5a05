"""Classes of node: what labels, the operator's settings and the cloud tell of a node's GPUs.

A node class is a set of nodes whose GPUs are alike: product, memory, GPUs per node, the resource
that pods ask for, and how a card is shared. Its name is made of these alone, so it does not change
with what else is in the cluster.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.api.figures import exact
from tidegate.core.names import GPU_RESOURCE, ISLAND_LABEL
from tidegate.facts import gpus
from tidegate.facts.gpus import Gpu

PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
COUNT_LABEL = "nvidia.com/gpu.count"
MAJOR_LABEL = "nvidia.com/gpu.compute.major"
MINOR_LABEL = "nvidia.com/gpu.compute.minor"

# Whole cards, or MIG devices where all of a node are alike; devices of one MIG profile beside
# others; and either under the name that the device plugin may give to shares.
_RESOURCE = re.compile(r"(?P<device>nvidia\.com/(?:gpu|mig-[\w.]+?))(?P<renamed>\.shared)?")


@dataclass(frozen=True)
class NodeClassSetting:
    """A class that the operator's settings declare, for nodes whose labels tell no GPU.

    `memory_bytes` is what CUDA gives a process, `taken_bytes` what other processes hold of it.
    """

    match_labels: Mapping[str, str]
    product: str
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    taken_bytes: int = 0
    gpus_per_island: int | None = None
    resource: str = GPU_RESOURCE


@dataclass(frozen=True)
class NodeClass:
    """Nodes whose GPUs are alike; `requirements` are the labels (key, value) that select them.

    Pods ask for `resource`. `gpus_per_island` are the GPUs of a node that reach each other fast, by
    NVLink or within a NUMA node; None where it is not told.
    """

    name: str
    product: str
    gpu: Gpu
    gpus_per_node: int
    requirements: tuple[tuple[str, str], ...]
    resource: str = GPU_RESOURCE
    gpus_per_island: int | None = None


def is_gpu_resource(name: str) -> bool:
    """Tell whether a resource is one of GPUs, whole or in parts."""
    return _RESOURCE.fullmatch(name) is not None


def classify(
    labels: Mapping[str, str],
    gpu_count: int,
    settings: Sequence[NodeClassSetting] = (),
    resource: str = GPU_RESOURCE,
) -> NodeClass | None:
    """Return a node's class by the settings, else by its labels, else by its cloud's labels."""
    declared = next((s for s in settings if _matches(s, labels, resource)), None)
    if declared is not None:
        return _declared_class(declared, labels, gpu_count)
    match = _RESOURCE.fullmatch(resource)
    product = labels.get(f"{match['device']}.product") if match else None
    if match and product and not product.endswith("MIG-INVALID"):
        return _labelled_class(match["device"], product, labels, gpu_count, resource)
    return _cloud_class(labels) if resource == GPU_RESOURCE else None


def memory_mib(labels: Mapping[str, str], device: str = GPU_RESOURCE) -> int | None:
    """Return a card's memory as its label says it; None for no label and for no sane number."""
    return integer(labels.get(f"{device}.memory"))


def integer(text: Any) -> int | None:
    """Read a count; None for what is none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", str(text)) else None


def _matches(setting: NodeClassSetting, labels: Mapping[str, str], resource: str) -> bool:
    is_there = all(labels.get(key) == value for key, value in setting.match_labels.items())
    return setting.resource == resource and is_there


def _labelled_class(
    device: str, product: str, labels: Mapping[str, str], gpu_count: int, resource: str
) -> NodeClass | None:
    size_mib = memory_mib(labels, device)
    if size_mib is None and f"{device}.memory" in labels:
        return None  # the catalogue's size is a guess against what the node says
    gpu = gpus.find(product, size_mib, integer(labels.get(f"{device}.multiprocessors")))
    if gpu is None and size_mib:
        gpu = gpus.unknown(product, size_mib, _capability(labels) or _known_capability(product))
    if gpu is None:
        return None
    keys = [f"{device}.{part}" for part in ("product", "memory", "count")]
    strategy = labels.get(f"{device}.sharing-strategy")
    gpu = _shared(
        gpu,
        strategy if resource == device else strategy or "time-slicing",
        integer(labels.get(f"{device}.replicas")) or 1,
    )
    if gpu.is_mps:
        keys.append(f"{device}.sharing-strategy")
    if gpu.sharers > 1:
        keys.append(f"{device}.replicas")
    count = integer(labels.get(f"{device}.count"))
    count = count * gpu.sharers if count else gpu_count
    return _make(product, gpu, count, labels, [key for key in keys if key in labels], resource)


def _shared(gpu: Gpu, strategy: str | None, sharers: int) -> Gpu:
    """Return the card as one of its sharers has it; a whole card as it is."""
    if strategy == "mps":
        return gpus.shared_by_mps(gpu, sharers)
    if gpu.is_shared or strategy in ("time-slicing", "time-sharing"):
        return replace(gpu, is_shared=True, sharers=sharers)
    return gpu


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
    gpu = replace(gpu, taken_bytes=setting.taken_bytes)
    keys = sorted(setting.match_labels)
    found = _make(setting.product, gpu, gpu_count, labels, keys, setting.resource)
    if setting.gpus_per_island is None:
        return found
    return replace(found, gpus_per_island=setting.gpus_per_island)


def _blank(product: str) -> Gpu:
    """A card of which nothing is known but its name."""
    return gpus.unknown(product, 0, None)


def _cloud_class(labels: Mapping[str, str]) -> NodeClass | None:
    found = gpus.from_cloud_labels(labels)
    gpu = gpus.find(found.product, None) if found else None
    if found is None or gpu is None:
        return None
    gpu = _shared(gpu, found.sharing, found.sharers)
    return _make(found.product, gpu, found.count * gpu.sharers, labels, list(found.keys))


def _make(
    product: str,
    gpu: Gpu,
    count: int,
    labels: Mapping[str, str],
    keys: Sequence[str],
    resource: str = GPU_RESOURCE,
) -> NodeClass:
    island = integer(labels.get(ISLAND_LABEL)) or None
    chosen = [*keys, ISLAND_LABEL] if island else keys
    return NodeClass(
        name=_name(product, gpu, count, resource, island),
        product=product,
        gpu=gpu,
        gpus_per_node=count,
        requirements=tuple((key, labels[key]) for key in chosen),
        resource=resource,
        gpus_per_island=island,
    )


def _name(product: str, gpu: Gpu, count: int, resource: str, island: int | None) -> str:
    """Return a name that differs where anything else of a class does, for one product label."""
    parts = [re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")]
    if resource.startswith("nvidia.com/mig-"):
        parts.append("mixed")  # the product is the same where all MIG devices of a node are alike
    if resource.endswith(".shared"):
        parts.append("renamed")
    if gpu.is_mps:
        parts.append("mps")  # cards shared by time have the same product label
    if gpu.sharers > 1:
        parts.append(f"by{gpu.sharers}")
    parts += [f"{round(gpu.cuda_total.bytes / 2**30)}g", f"x{count}"]
    if island:
        parts.append(f"i{island}")
    return "-".join(parts)


def _known_capability(product: str) -> tuple[int, int] | None:
    """Return the compute capability of a known card, whatever memory it is sold with."""
    return next((gpu.compute_capability for gpu in gpus.variants(product)), None)


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = integer(labels.get(MAJOR_LABEL)), integer(labels.get(MINOR_LABEL))
    return (major, minor or 0) if major else None
