"""The attention backends for layers with keys and values of each KV head (vLLM 0.32, 0.33)."""

from dataclasses import replace

from tidegate.core.budget import kv_dtypes
from tidegate.core.budget.demand import EVERY_16, Backend, Demand
from tidegate.core.budget.kernel_blocks import KernelBlocks

_SIXTEEN = kv_dtypes.SIXTEEN_BIT
_FP8_OF_FLASH_ATTENTION = ("fp8", "fp8_e4m3")
_FA4_PAGE = 128  # tokens of the kernel for heads of 256 on Blackwell
_FA4_FP8_PAGE = 64  # tokens of the kernel for heads of 512 with an fp8 cache on Hopper
_COMPOSITE_HEADS = (256, 512)


def flash_attention_version(demand: Demand) -> int:
    """Return the version of FlashAttention that the engine takes: 2, 3 or 4."""
    head_dim, value_dim = demand.head_dim, demand.value_head_dim or demand.head_dim
    if demand.major == 9:
        is_wide = head_dim > 256 or (demand.has_sinks and head_dim != value_dim)
        return 4 if demand.needs_fa4 or is_wide else 3
    if demand.major != 10:
        return 2
    if head_dim <= 128 or (head_dim, value_dim) == (192, 128):
        return 4
    is_plain = not (
        demand.has_sinks
        or demand.caps_scores
        or demand.is_quantised
        or demand.images_both_ways
        or demand.context_parallel > 1
    )
    return 4 if head_dim == value_dim == 256 and is_plain else 2


def _flash_attention(demand: Demand) -> str | None:
    if demand.major < 8:
        return "needs compute capability 8.0"
    if demand.model_dtype == "float32":
        return "has no float32"
    largest = 512 if demand.major in (9, 10) else 256
    if demand.head_dim % 8 or demand.head_dim > largest:
        return f"has no head size {demand.head_dim}"
    version = flash_attention_version(demand)
    if demand.has_sinks and version == 2:
        return "has attention sinks from compute capability 9.0 on"
    if demand.is_quantised and not _has_fp8(demand, version):
        return "has fp8 KV only on compute capability 9.0 and 10.x"
    if demand.images_both_ways and (version != 4 or (demand.is_quantised and demand.major == 9)):
        return "has no attention in both directions between the tokens of an image"
    return None


def _has_fp8(demand: Demand, version: int) -> bool:
    if demand.major == 9:
        return version == 3 or (version == 4 and demand.head_dim == 512)
    return version == 4 and demand.major == 10


def _flash_attention_blocks(demand: Demand) -> KernelBlocks:
    is_fp8 = demand.kv_cache_dtype in _FP8_OF_FLASH_ATTENTION
    if demand.major == 9 and is_fp8 and demand.head_dim == 512:
        return KernelBlocks((_FA4_FP8_PAGE,))
    if demand.major == 10 and demand.head_dim == 256 and flash_attention_version(demand) == 4:
        return KernelBlocks((_FA4_PAGE,))
    return EVERY_16


def _flashinfer(demand: Demand) -> str | None:
    capability = demand.compute_capability
    if not (8, 0) <= capability <= (12, 1):
        return "needs compute capability 8.0 to 12.1"
    if demand.model_dtype == "float32":
        return "has no float32"
    if demand.head_dim not in (64, 128, 256, 512):
        return f"has no head size {demand.head_dim}"
    if demand.images_both_ways:
        return "has no attention in both directions between the tokens of an image"
    if demand.has_sinks and demand.major not in (10, 12) and capability != (9, 0):
        return "has attention sinks from compute capability 9.0 on"
    if demand.kv_cache_dtype in kv_dtypes.NVFP4 and demand.major in (8, 9, 12):
        if demand.kv_cache_dtype != "nvfp4":
            return f"has {demand.kv_cache_dtype} only on compute capability 10.x"
        if demand.head_dim == 64:
            return "has no nvfp4 KV with head size 64 before compute capability 10.0"
        if demand.has_sinks:
            return "has no nvfp4 KV with attention sinks before compute capability 10.0"
    return None


def _triton(demand: Demand) -> str | None:
    return None if demand.head_dim >= 32 else f"has no head size {demand.head_dim}"


def _flex(demand: Demand) -> str | None:
    return "has no attention sinks" if demand.has_sinks else None


def _turboquant(demand: Demand) -> str | None:
    if demand.model_dtype == "float32":
        return "has no float32"
    for is_asked, what in (
        (demand.has_window, "sliding windows"),
        (demand.has_sinks, "attention sinks"),
        (demand.images_both_ways, "attention in both directions between the tokens of an image"),
    ):
        if is_asked:
            return f"has no {what}"
    return None


def _triton_with_flash_attention(demand: Demand) -> str | None:
    return _composite(demand, 9) or _flash_attention(replace(demand, images_both_ways=False))


def _triton_with_flashinfer(demand: Demand) -> str | None:
    return _composite(demand, 10) or _flashinfer(replace(demand, images_both_ways=False))


def _composite(demand: Demand, major: int) -> str | None:
    """Check what a pair of backends demands: one for images, the other for all else."""
    if demand.major != major or not demand.images_both_ways:
        return f"serves images on compute capability {major}.x alone"
    if demand.head_dim not in _COMPOSITE_HEADS:
        return f"has no head size {demand.head_dim}"
    return "has no attention sinks" if demand.has_sinks else None


def _values_apart(demand: Demand) -> str | None:
    if flash_attention_version(demand) == 2:
        return "needs FlashAttention 3 or 4 for values of another size than keys"
    return _flash_attention(demand)


FLASH_ATTENTION = Backend(
    "FLASH_ATTN",
    (*_SIXTEEN, *_FP8_OF_FLASH_ATTENTION),
    _flash_attention,
    _flash_attention_blocks,
    has_context_parallel=True,
)
FLASHINFER = Backend(
    "FLASHINFER",
    _SIXTEEN + kv_dtypes.FP8 + kv_dtypes.NVFP4,
    _flashinfer,
    lambda demand: KernelBlocks((16, 32, 64)),
    has_context_parallel=True,
)
TRITON = Backend("TRITON_ATTN", _SIXTEEN + kv_dtypes.FP8 + kv_dtypes.PER_TOKEN_HEAD, _triton)
FLEX = Backend("FLEX_ATTENTION", _SIXTEEN, _flex)
TURBOQUANT = Backend(
    "TURBOQUANT",
    kv_dtypes.TURBOQUANT,
    _turboquant,
    lambda demand: KernelBlocks((16, 32, 64, 128)),
)
_TRITON_FLASH_ATTENTION = Backend(
    "TRITON_FLASH_ATTN",
    FLASH_ATTENTION.kv_cache_dtypes,
    _triton_with_flash_attention,
    lambda demand: EVERY_16.shared_with(_flash_attention_blocks(demand)),
)
_TRITON_FLASHINFER = Backend(
    "TRITON_FLASHINFER",
    _SIXTEEN + kv_dtypes.FP8,
    _triton_with_flashinfer,
    lambda demand: KernelBlocks((64,)),
)
_FLASH_ATTENTION_DIFFKV = Backend(
    "FLASH_ATTN_DIFFKV", FLASH_ATTENTION.kv_cache_dtypes, _values_apart, has_context_parallel=True
)
_TRITON_DIFFKV = Backend(
    "TRITON_ATTN_DIFFKV", ("auto", "bfloat16", *_FP8_OF_FLASH_ATTENTION), _triton
)


def _indexed(demand: Demand) -> str | None:
    if demand.model_dtype == "float32":
        return "has no float32"
    if demand.head_dim != 128:
        return f"has no head size {demand.head_dim}"
    if demand.kv_cache_dtype in kv_dtypes.NVFP4 and demand.major != 10:
        return "has nvfp4 only on compute capability 10.x"
    if demand.kv_cache_dtype.startswith("fp8") and demand.compute_capability < (8, 9):
        return "has fp8 only from compute capability 8.9 on"
    return None


_INDEXED = Backend(
    "MINIMAX_M3_SPARSE",
    ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", *kv_dtypes.NVFP4),
    _indexed,
    lambda demand: KernelBlocks((128,)),
)


def in_order(demand: Demand) -> tuple[Backend, ...]:
    """Return the backends in the engine's order of preference."""
    if demand.is_sparse:
        return (_INDEXED,)
    if demand.value_head_dim not in (None, demand.head_dim):
        return (_FLASH_ATTENTION_DIFFKV, _TRITON_DIFFKV)
    composite: tuple[Backend, ...] = ()
    if demand.images_both_ways and demand.major in (9, 10):
        composite = (_TRITON_FLASH_ATTENTION if demand.major == 9 else _TRITON_FLASHINFER,)
    first = (FLASHINFER, FLASH_ATTENTION) if demand.major == 10 else (FLASH_ATTENTION, FLASHINFER)
    return (*composite, *first, TRITON, FLEX, TURBOQUANT)
