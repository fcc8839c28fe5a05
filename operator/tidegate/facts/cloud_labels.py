"""Which GPU a node has by its cloud's labels, for nodes without GPU feature discovery.

`data/cloud_gpus.json` maps instance types (AWS, Azure) to product and count, the names that AWS
provisioners write with the memory that EC2's API states (which is not what a driver shows), GKE's
accelerators to products, and those GKE machine types whose name does not end in the GPU count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tidegate.facts import package_data

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
_GKE_COUNT = "cloud.google.com/gke-accelerator-count"
_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_SHARERS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AWS_PREFIXES = ("karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-")


@dataclass(frozen=True)
class CloudGpu:
    """A product label, the GPUs of the node, and the keys of the labels that told them.

    `sharing` is `time-sharing` or `mps` where each GPU has several `sharers`.
    """

    product: str
    count: int
    keys: tuple[str, ...]
    sharing: str | None = None
    sharers: int = 1


def from_cloud_labels(labels: Mapping[str, str]) -> CloudGpu | None:
    """Return the GPU of a node; None where the labels leave product, memory or count open."""
    return _by_instance_type(labels) or _by_gke(labels) or _by_aws_name(labels)


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = package_data.load("cloud_gpus.json")
    return tables


def _by_instance_type(labels: Mapping[str, str]) -> CloudGpu | None:
    found = _tables()["instanceTypes"].get(labels.get(_INSTANCE_TYPE))
    return None if found is None else CloudGpu(found[0], found[1], (_INSTANCE_TYPE,))


def _by_gke(labels: Mapping[str, str]) -> CloudGpu | None:
    product = _tables()["gkeAccelerators"].get(labels.get(_GKE_ACCELERATOR))
    if product is None or labels.get(_GKE_PARTITION):
        return None  # a partitioned node holds MIG devices, and no label tells how many
    counted_by = _GKE_COUNT
    count = _count(labels.get(_GKE_COUNT))
    if not count:
        counted_by, machine = _INSTANCE_TYPE, labels.get(_INSTANCE_TYPE, "")
        suffix = re.search(r"-(\d+)g$", machine)
        count = _count(suffix[1]) if suffix else _tables()["gkeMachines"].get(machine, 0)
    if not count:
        return None
    return _shared(CloudGpu(product, count, (_GKE_ACCELERATOR, counted_by)), labels)


def _shared(found: CloudGpu, labels: Mapping[str, str]) -> CloudGpu:
    """Add how a GPU is shared; a pool without sharing has neither label."""
    sharing = labels.get(_GKE_SHARING)
    if sharing is None:
        return found
    keys = [key for key in (_GKE_SHARING, _GKE_SHARERS) if key in labels]
    sharers = _count(labels.get(_GKE_SHARERS)) or 1
    return replace(found, keys=(*found.keys, *keys), sharing=sharing, sharers=sharers)


def _by_aws_name(labels: Mapping[str, str]) -> CloudGpu | None:
    for prefix in _AWS_PREFIXES:
        keys = tuple(prefix + part for part in ("name", "memory", "count"))
        name, memory, count = (labels.get(key, "") for key in keys)
        product = _tables()["awsNames"].get(name, {}).get(memory)
        if product and _count(count):
            return CloudGpu(product, _count(count), keys)
    return None


def _count(text: str | None) -> int:
    """Return a count of GPUs; 0 for what is no count (AWS states 0 for a fraction of a GPU)."""
    return int(text) if text and re.fullmatch(r"\d{1,3}", text) else 0
