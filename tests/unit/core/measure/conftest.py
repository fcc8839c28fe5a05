"""A slice as it is planned, and engines that tell of its memory."""

import math
from dataclasses import replace

import pytest

from tidegate.api.llmdeployment import parse_spec
from tidegate.core import model_config, nodes, plan
from tidegate.core.measure.basis import Basis
from tidegate.core.measure.learn import Reading
from tidegate.facts.cache_config import CacheConfig
from tidegate.facts.startup_log import StartupLog

GIB = 2**30


@pytest.fixture
def make_plan():
    """Plan Qwen3-32B on H100 cards; `fields` are parts of the spec."""

    def make(basis: Basis | None = None, product="NVIDIA-H100-80GB-HBM3", **fields):
        document = {
            "model": {"id": "Qwen/Qwen3-32B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 32768},
            "pools": {"unified": {"replicas": 1, "tensorParallel": 2}},
        }
        for name, part in fields.items():
            document[name] = {**document.get(name, {}), **part}
        spec = parse_spec({"spec": document})
        labels = {
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.count": "8",
        }
        node = nodes.read(
            {
                "metadata": {"name": "n1", "labels": labels},
                "status": {"allocatable": {"nvidia.com/gpu": "8"}},
            }
        )
        return plan.make(spec, model_config.of(spec.model, None), [node], {"n1": 8}, {}, basis)

    return make


@pytest.fixture
def planned(make_plan):
    """The plan's only slice."""
    return make_plan().slices[0]


@pytest.fixture
def hear():
    """What an engine tells that takes the given GiB beside KV, by term."""

    def reading(
        entry, *, weights=30.6, activations=5.64, non_torch=0.54, graphs=0.5, total=None, **cache
    ):
        pool = entry.sizing.pool
        utilization = entry.sizing.gpu_memory_utilization
        requested = math.ceil((total or entry.sizing.budget.total.bytes) * utilization)
        beside = round((weights + activations + non_torch + graphs) * GIB)
        blocks = (requested - beside) // max(pool.bytes_per_block)
        tokens = int(blocks / pool.blocks_per_request * entry.engine.max_model_len)
        told = CacheConfig(
            blocks=blocks,
            block_size=pool.block_size,
            size_tokens=tokens,
            max_concurrency=blocks / pool.blocks_per_request,
            dtype="auto",
            utilization=utilization,
            given_bytes=None,
        )
        log = StartupLog(
            weights_bytes=round(weights * GIB),
            activations_bytes=round(activations * GIB),
            non_torch_bytes=round(non_torch * GIB),
            cuda_graphs_bytes=round(graphs * GIB),
            is_profiled=True,
        )
        return Reading(replace(told, **cache), log)

    return reading
