"""Resources and worlds of the admission tests."""

import copy
from typing import Any

from tidegate.core import nodes
from tidegate.core.admission import Facts, Rules
from tidegate.core.nodes import GpuPod, Node

H100 = "NVIDIA-H100-80GB-HBM3"


def a_resource(**changes: Any) -> dict[str, Any]:
    """Return a good resource; `spec__engine__image="x"` replaces the value at spec.engine.image."""
    document: dict[str, Any] = {
        "apiVersion": "tidegate.io/v1alpha1",
        "kind": "LLMDeployment",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": {
            "model": {"id": "Qwen/Qwen3-8B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 8192},
            "pools": {"unified": {"replicas": 2}},
        },
    }
    return changed(document, **changes)


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a copy with other values; None removes a field."""
    result = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = result
        for step in parents:
            part = part.setdefault(step, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return result


def some_nodes(product: str = H100, gpus: int = 8) -> tuple[Node, ...]:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    document = {
        "metadata": {"name": "n1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
    }
    return nodes.offers(document)


def seen(held_gpus: int = 0, **rest: Any) -> Facts:
    """Return a world of one node, some of whose GPUs are held."""
    pods = [GpuPod("team", "p", "n1", held_gpus)] if held_gpus else []
    return Facts(**{"nodes": some_nodes(), "gpu_pods": pods, **rest})


def rules(**parts: Any) -> Facts:
    return seen(rules=Rules(**parts))


def reasons(found: Any) -> set[str]:
    return {str(one.reason) for one in found}
