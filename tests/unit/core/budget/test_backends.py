"""The backend and the block size are the engine's own choice for dtype, head size and GPU."""

import pytest

from tidegate.core.budget import backends
from tidegate.core.budget.demand import Demand
from tidegate.errors import Refused

AMPERE, ADA, HOPPER, BLACKWELL, TURING = (8, 0), (8, 9), (9, 0), (10, 0), (7, 5)


def _choose(kv_cache_dtype, capability, head_dim=128, dtype="bfloat16", asked=None):
    demand = Demand(head_dim, dtype, kv_cache_dtype, capability)
    return backends.choose(demand, None, asked)


@pytest.mark.parametrize(
    ("kv_cache_dtype", "capability", "head_dim", "dtype", "name"),
    [
        ("auto", HOPPER, 128, "bfloat16", "FLASH_ATTN"),
        ("fp8", HOPPER, 128, "bfloat16", "FLASH_ATTN"),
        ("fp8_e5m2", HOPPER, 128, "bfloat16", "FLASHINFER"),
        ("nvfp4", HOPPER, 128, "bfloat16", "FLASHINFER"),
        ("int8_per_token_head", HOPPER, 128, "bfloat16", "TRITON_ATTN"),
        ("turboquant_k8v4", HOPPER, 128, "bfloat16", "TURBOQUANT"),
        ("auto", HOPPER, 512, "bfloat16", "FLASH_ATTN"),
        ("auto", AMPERE, 512, "bfloat16", "FLASHINFER"),
        ("auto", AMPERE, 300, "bfloat16", "TRITON_ATTN"),
        ("fp8", AMPERE, 128, "bfloat16", "FLASHINFER"),
        ("fp8", ADA, 80, "bfloat16", "TRITON_ATTN"),
        ("auto", BLACKWELL, 128, "bfloat16", "FLASHINFER"),
        ("nvfp4_4over6", BLACKWELL, 128, "bfloat16", "FLASHINFER"),
        ("nvfp4", BLACKWELL, 64, "bfloat16", "FLASHINFER"),
        ("fp8", BLACKWELL, 96, "bfloat16", "FLASH_ATTN"),
        ("auto", TURING, 128, "float16", "TRITON_ATTN"),
        ("auto", HOPPER, 128, "float32", "TRITON_ATTN"),
        ("auto", HOPPER, 16, "float32", "FLEX_ATTENTION"),
    ],
)
def test_the_first_backend_that_can_serve_is_taken(
    kv_cache_dtype, capability, head_dim, dtype, name
):
    assert _choose(kv_cache_dtype, capability, head_dim, dtype).name == name


@pytest.mark.parametrize(
    ("kv_cache_dtype", "capability", "head_dim"),
    [("fp8", AMPERE, 80), ("nvfp4", HOPPER, 64), ("nvfp4", HOPPER, 80), ("fp8", TURING, 128)],
)
def test_what_no_backend_can_serve_is_refused_with_each_ones_reason(
    kv_cache_dtype, capability, head_dim
):
    with pytest.raises(Refused, match="compute capability"):
        _choose(kv_cache_dtype, capability, head_dim)


def test_a_backend_that_is_asked_for_is_taken_or_refused_with_those_that_would_work():
    assert _choose("auto", HOPPER, asked="FLASHINFER").name == "FLASHINFER"
    with pytest.raises(Refused, match="FLASHINFER, TRITON_ATTN would work"):
        _choose("fp8_e5m2", HOPPER, asked="FLASH_ATTN")


@pytest.mark.parametrize(
    ("head_dim", "kv_cache_dtype", "capability", "asked", "block_size"),
    [
        (128, "auto", HOPPER, None, 16),
        (256, "auto", BLACKWELL, "FLASH_ATTN", 128),
        (256, "auto", BLACKWELL, None, 16),
        (512, "fp8", HOPPER, None, 64),
        (512, "auto", HOPPER, None, 16),
    ],
)
def test_large_heads_have_kernels_with_larger_pages(
    head_dim, kv_cache_dtype, capability, asked, block_size
):
    demand = Demand(head_dim, "bfloat16", kv_cache_dtype, capability)
    chosen = backends.choose(demand, None, asked)

    assert backends.preferred_block_size([(chosen, demand)]) == block_size
