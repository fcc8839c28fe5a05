"""Specs and nodes to check, as changes of one that is good."""

from typing import Any

import yaml

from tidegate.api.llmdeployment import LLMDeploymentSpec, parse_spec
from tidegate.core import checks, nodes
from tidegate.core.checks import Verdict
from tidegate.core.nodes import Node, NodeClassSetting
from tidegate.core.plan import Plan
from tidegate.facts import models

GOOD = """
model: {id: Qwen/Qwen3-32B}
engine: {image: "vllm/vllm-openai:v0.32.0", maxModelLen: 32768}
workload: {promptTokens: {p95: 4000}, outputTokens: {mean: 400, p95: 1000}}
pools: {unified: {replicas: 4, tensorParallel: 2}}
"""
PAIR = {
    "prefill": {"replicas": 2, "tensorParallel": 2},
    "decode": {"replicas": 4, "tensorParallel": 2},
}
H100 = "NVIDIA-H100-80GB-HBM3"
A100 = "NVIDIA-A100-SXM4-80GB"
A100_PCIE = "NVIDIA-A100-80GB-PCIe"
L40S = "NVIDIA-L40S"
T4 = "Tesla-T4"
V100 = "Tesla-V100-SXM2-32GB"


def spec(**changes: Any) -> LLMDeploymentSpec:
    """Read the good spec with other values: `kvCache__dtype="fp8"`; None takes a field away."""
    document = yaml.safe_load(GOOD)
    for path, value in changes.items():
        *steps, last = path.split("__")
        part = document
        for step in steps:
            part = part.setdefault(step, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return parse_spec({"spec": document})


def node(
    product: str = H100,
    gpus: int = 8,
    memory: str | None = "1000Gi",
    name: str = "",
    **more: str,
) -> Node:
    """Return a node of a product; `more` are labels by their last part, such as `gpu.replicas`."""
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    labels |= {f"nvidia.com/{key}": value for key, value in more.items()}
    allocatable = {"nvidia.com/gpu": str(gpus)} | ({"memory": memory} if memory else {})
    return nodes.read(
        {
            "metadata": {"name": name or product, "labels": labels},
            "status": {"allocatable": allocatable},
        }
    )


def node_with_islands(gpus_per_island: int, product: str = H100, gpus: int = 8) -> Node:
    """Return a node whose owner tells by a label how many GPUs reach each other fast."""
    labels = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "tidegate.io/gpus-per-island": str(gpus_per_island),
    }
    return nodes.read(
        {
            "metadata": {"name": product, "labels": labels},
            "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "memory": "1000Gi"}},
        }
    )


def node_of_memory(memory_bytes: int, capability: tuple[int, int] = (9, 0)) -> Node:
    """Return a node of eight cards that differ in nothing but their memory."""
    setting = NodeClassSetting({}, "Some-Card", memory_bytes, capability)
    return nodes.read(
        {"metadata": {"name": "n1"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}, [setting]
    )


def checked(asked: LLMDeploymentSpec, *there: Node) -> tuple[Plan | None, list[Verdict]]:
    """Check a spec on nodes; on a node of H100s where none is given."""
    found = models.find(asked.model.id)
    assert found is not None
    return checks.check_spec(asked, found.config, there or (node(),))


def verdicts(asked: LLMDeploymentSpec, *there: Node) -> list[Verdict]:
    """Return what the checks say."""
    return checked(asked, *there)[1]
