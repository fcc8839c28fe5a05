"""Which GPUs the nodes pretend to have: labels as GPU feature discovery writes them, and capacity.

No device exists: the scheduler's accounting of `nvidia.com/gpu` is real, the GPU is not.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .errors import ClusterError

DEFAULT_FILE = Path(__file__).with_name("nodes.json")
GPU_RESOURCE = "nvidia.com/gpu"
LABEL_PREFIX = "nvidia.com/"


@dataclass(frozen=True)
class NodeClass:
    """The GPUs of one kind of node.

    Attributes:
        product: Label `nvidia.com/gpu.product`.
        memory_mib: Total memory of one GPU as NVML tells it; label `nvidia.com/gpu.memory`.
        gpus: GPUs on the node; label `nvidia.com/gpu.count` and the node's capacity.
        compute_capability: `major.minor`.
        family: Architecture, as `hopper`.
    """

    product: str
    memory_mib: int
    gpus: int
    compute_capability: str
    family: str

    def labels(self) -> dict[str, str]:
        """The node's labels, the subset of GPU feature discovery's that a scheduler may use."""
        major, minor = self.compute_capability.split(".")
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.memory": str(self.memory_mib),
            "nvidia.com/gpu.count": str(self.gpus),
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/gpu.sharing-strategy": "none",
            "nvidia.com/gpu.family": self.family,
            "nvidia.com/gpu.compute.major": major,
            "nvidia.com/gpu.compute.minor": minor,
        }

    def capacity(self) -> dict[str, str]:
        """What the node offers beside CPU and memory."""
        return {GPU_RESOURCE: str(self.gpus)}


@dataclass(frozen=True)
class NodePlan:
    """Which class each node has: node i has the i-th class, and the list is repeated."""

    nodes: tuple[str, ...]
    classes: Mapping[str, NodeClass]

    def of(self, number: int) -> NodeClass:
        """The class of node `number`, counted from 1."""
        return self.classes[self.nodes[(number - 1) % len(self.nodes)]]

    def named(self, name: str) -> NodeClass:
        """The class with this name.

        Raises:
            ClusterError: There is none; lists those that there are.
        """
        if name not in self.classes:
            raise ClusterError(f"no node class {name!r}; there are: {', '.join(self.classes)}")
        return self.classes[name]

    def document(self) -> dict[str, Any]:
        """The plan in the form of `nodes.json`."""
        classes = {name: asdict(value) for name, value in self.classes.items()}
        return {"nodes": list(self.nodes), "classes": classes}


def load(path: Path = DEFAULT_FILE) -> NodePlan:
    """Read a plan from a JSON file of the form of `nodes.json`.

    Raises:
        ClusterError: The file can't be read, or a field is missing or wrong; names it.
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path}: {error}") from None
    return parse(document, str(path))


def parse(document: Any, source: str) -> NodePlan:
    """Make a plan of a parsed document; `source` names it in errors."""
    if not isinstance(document, dict) or not document.get("nodes") or "classes" not in document:
        raise ClusterError(f'{source}: needs "nodes" (a list of class names) and "classes"')
    classes = {
        name: _node_class(value, source, name) for name, value in document["classes"].items()
    }
    plan = NodePlan(tuple(document["nodes"]), classes)
    for name in plan.nodes:
        plan.named(name)
    return plan


def _node_class(value: Any, source: str, name: str) -> NodeClass:
    at = f"{source}: classes.{name}"
    wanted = {field.name for field in fields(NodeClass)}
    if not isinstance(value, dict) or set(value) != wanted:
        raise ClusterError(f"{at}: needs exactly the fields {', '.join(sorted(wanted))}")
    for key in ("memory_mib", "gpus"):
        if type(value[key]) is not int or value[key] < 0:
            raise ClusterError(f"{at}.{key}: {value[key]!r} is not a whole number from 0")
    if not re.fullmatch(r"\d+\.\d+", str(value["compute_capability"])):
        raise ClusterError(f'{at}.compute_capability: write it as "9.0"')
    return NodeClass(**value)


def patches(
    node_class: NodeClass, labels: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The merge patches of a node's metadata and status that give it a class.

    Labels of the class that it had before, in `labels`, are removed.
    """
    old = {key: None for key in labels if key.startswith(LABEL_PREFIX)}
    amounts = node_class.capacity()
    return (
        {"metadata": {"labels": {**old, **node_class.labels()}}},
        # the kubelet would copy capacity to allocatable on its next report: do not wait for it
        {"status": {"capacity": amounts, "allocatable": amounts}},
    )
