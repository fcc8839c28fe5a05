"""A model, an engine and a card that the tests of sizing vary."""

from dataclasses import replace
from typing import Any

import pytest

from tidegate.api.figures import exact
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.facts.gpus import Gpu

GIB = 2**30


@pytest.fixture
def llama_8b() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }


@pytest.fixture
def engine() -> EngineConfig:
    return EngineConfig(
        version="0.32.0", max_model_len=16384, max_num_seqs=256, max_num_batched_tokens=8192
    )


@pytest.fixture
def make_gpu():
    def make(gib: float = 79.18, **fields: Any) -> Gpu:
        gpu = Gpu(
            name="H100",
            product="NVIDIA-H100-80GB-HBM3",
            cuda_total=exact(int(gib * GIB)),
            compute_capability=(9, 0),
            memory_bandwidth_bytes_per_second=3350 * 10**9,
            bf16_flops=989 * 10**12,
            fp8_flops=1979 * 10**12,
            nvlink_bytes_per_second=450 * 10**9,
        )
        return replace(gpu, **fields)

    return make
