"""The plan of the guide to thresholds: Qwen3-32B on H100 pairs, as the README has it."""

from functools import cache

from tidegate.api.llmdeployment import parse_spec
from tidegate.core import nodes
from tidegate.core.checks.subject import Case, World
from tidegate.facts import models

MODEL = "Qwen/Qwen3-32B"
UNIFIED = {"unified": {"replicas": 4, "tensorParallel": 2}}
PAIR = {
    "prefill": {"replicas": 1, "tensorParallel": 2},
    "decode": {"replicas": 3, "tensorParallel": 2},
}


@cache
def _node():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.count": "8",
    }
    document = {
        "metadata": {"name": "one", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }
    return tuple(nodes.offers(document))


def case(pools=UNIFIED):
    """Return the spec of the guide with its plan."""
    spec = {
        "model": {"id": MODEL},
        "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 32768},
        "kvCache": {"dtype": "fp8"},
        "workload": {
            "promptTokens": {"mean": 1500, "p95": 4000},
            "outputTokens": {"mean": 400, "p95": 1000},
            "peakRequestsPerSecond": 12,
        },
        "slo": {"timeToFirstToken": "2s", "timePerOutputToken": "50ms"},
        "pools": pools,
    }
    parsed = parse_spec({"spec": spec})
    known = models.find(MODEL)
    assert known is not None
    world = World(dict(known.config), _node())
    return Case(parsed, world.plan(parsed), world)
