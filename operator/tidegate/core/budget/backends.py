"""Which attention backend the engine chooses, and what block sizes it takes.

The rules are those of vLLM 0.32 and 0.33 on CUDA for decoder layers of full attention: the first
backend in order of preference that supports the head size, the dtypes and the compute capability.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.budget import kv_dtypes
from tidegate.errors import Refused

DEFAULT_BLOCK_SIZE = 16
_EVERY_16 = 16


@dataclass(frozen=True)
class Demand:
    """What a layer asks of its backend."""

    head_dim: int
    model_dtype: str
    kv_cache_dtype: str
    compute_capability: tuple[int, int]


@dataclass(frozen=True)
class Backend:
    """A backend: the KV dtypes it has, what else it demands, and its block sizes in tokens.

    A block must be a multiple of `block_multiple`. `rejects` returns why it cannot serve a
    demand, or None.
    """

    name: str
    kv_cache_dtypes: tuple[str, ...]
    rejects: Callable[[Demand], str | None]
    block_multiple: int = _EVERY_16

    def fault(self, demand: Demand, block_size: int | None) -> str | None:
        """Return why this backend cannot serve the demand, or None."""
        if demand.kv_cache_dtype not in self.kv_cache_dtypes:
            return f"has no KV cache dtype {demand.kv_cache_dtype}"
        if block_size is not None and block_size % self.block_multiple:
            return f"needs blocks of a multiple of {self.block_multiple} tokens"
        return self.rejects(demand)


def _flash_attention(demand: Demand) -> str | None:
    major, _ = demand.compute_capability
    if major < 8:
        return "needs compute capability 8.0"
    if demand.model_dtype == "float32":
        return "has no float32"
    largest = 512 if major in (9, 10) else 256
    if demand.head_dim % 8 or demand.head_dim > largest:
        return f"has no head size {demand.head_dim}"
    if demand.kv_cache_dtype in kv_dtypes.FP8:
        if major == 10 and demand.head_dim in range(8, 129):
            return None
        if major != 9 or 256 < demand.head_dim < 512:
            return "has fp8 KV only on compute capability 9.0 and 10.x"
    return None


def _flashinfer(demand: Demand) -> str | None:
    capability = demand.compute_capability
    if not (8, 0) <= capability <= (12, 1):
        return "needs compute capability 8.0 to 12.1"
    if demand.model_dtype == "float32":
        return "has no float32"
    if demand.head_dim not in (64, 128, 256, 512):
        return f"has no head size {demand.head_dim}"
    if demand.kv_cache_dtype in kv_dtypes.NVFP4 and capability[0] in (8, 9, 12):
        if demand.kv_cache_dtype != "nvfp4":
            return f"has {demand.kv_cache_dtype} only on compute capability 10.x"
        if demand.head_dim == 64:
            return "has no nvfp4 KV with head size 64 before compute capability 10.0"
    return None


def _triton(demand: Demand) -> str | None:
    return None if demand.head_dim >= 32 else f"has no head size {demand.head_dim}"


def _flex(demand: Demand) -> str | None:
    return None


def _turboquant(demand: Demand) -> str | None:
    return "has no float32" if demand.model_dtype == "float32" else None


_SIXTEEN = kv_dtypes.SIXTEEN_BIT
_FLASH_ATTN = Backend("FLASH_ATTN", (*_SIXTEEN, "fp8", "fp8_e4m3"), _flash_attention)
_FLASHINFER = Backend("FLASHINFER", _SIXTEEN + kv_dtypes.FP8 + kv_dtypes.NVFP4, _flashinfer)
_TRITON = Backend("TRITON_ATTN", _SIXTEEN + kv_dtypes.FP8 + kv_dtypes.PER_TOKEN_HEAD, _triton)
_FLEX = Backend("FLEX_ATTENTION", _SIXTEEN, _flex)
_TURBOQUANT = Backend("TURBOQUANT", kv_dtypes.TURBOQUANT, _turboquant)
_BEFORE_BLACKWELL = (_FLASH_ATTN, _FLASHINFER, _TRITON, _FLEX, _TURBOQUANT)
_DATACENTER_BLACKWELL = (_FLASHINFER, _FLASH_ATTN, _TRITON, _FLEX, _TURBOQUANT)


def choose(demand: Demand, block_size: int | None, asked: str | None) -> Backend:
    """Return the backend that the engine takes for a layer.

    Raises:
        Refused: no backend can serve the demand, or not the one that was asked for.
    """
    ordered = _DATACENTER_BLACKWELL if demand.compute_capability[0] == 10 else _BEFORE_BLACKWELL
    if asked is not None:
        return _the_one_asked(asked, ordered, demand, block_size)
    for backend in ordered:
        if backend.fault(demand, block_size) is None:
            _refuse_late(backend, demand)
            return backend
    if block_size is not None and any(one.fault(demand, None) is None for one in ordered):
        raise Refused(
            Reason.BLOCK_SIZE_UNSUPPORTED,
            f"blocks of {block_size} tokens: use a multiple of {_EVERY_16}",
            "spec.kvCache.blockSize",
        )
    faults = "; ".join(f"{one.name} {one.fault(demand, block_size)}" for one in ordered)
    raise Refused(
        Reason.KV_DTYPE_UNSUPPORTED,
        f"no attention backend has KV cache dtype {demand.kv_cache_dtype} with head size "
        f"{demand.head_dim} on compute capability {_spell(demand)}: {faults}",
        "spec.kvCache.dtype",
    )


def _the_one_asked(
    asked: str, ordered: tuple[Backend, ...], demand: Demand, block_size: int | None
) -> Backend:
    found = next((one for one in ordered if one.name == asked), None)
    if found is None:
        names = ", ".join(one.name for one in ordered)
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"attention backend {asked} is not one for full attention on CUDA: use {names}",
            "spec.engine.attentionBackend",
        )
    fault = found.fault(demand, block_size)
    if fault is not None:
        others = [one.name for one in ordered if one.fault(demand, block_size) is None]
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"attention backend {asked} {fault} (compute capability {_spell(demand)}); "
            f"{', '.join(others) or 'none'} would work",
            "spec.engine.attentionBackend",
        )
    _refuse_late(found, demand)
    return found


def _refuse_late(backend: Backend, demand: Demand) -> None:
    """Refuse what the engine accepts at selection and then fails on in the backend itself."""
    is_fp8 = demand.kv_cache_dtype.startswith("fp8")
    if backend is _TRITON and is_fp8 and demand.compute_capability < (8, 9):
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"KV cache dtype {demand.kv_cache_dtype} in TRITON_ATTN needs compute capability 8.9, "
            f"this GPU has {_spell(demand)}; auto and int8_per_token_head work",
            "spec.kvCache.dtype",
        )


def preferred_block_size(backends: tuple[Backend, ...], demand: Demand) -> int:
    """Return the block size that the engine takes when none is asked for."""
    major, _ = demand.compute_capability
    is_fp8 = demand.kv_cache_dtype in ("fp8", "fp8_e4m3")
    if backends == (_FLASH_ATTN,):  # pages of FlashAttention 4's kernels for large heads
        if demand.head_dim == 256 and major in (10, 11):
            return 128
        if demand.head_dim == 512 and major == 9 and is_fp8:
            return 64
    return math.lcm(DEFAULT_BLOCK_SIZE, *(one.block_multiple for one in backends))


def packs(backend: Backend, kv_cache_dtype: str) -> bool:
    """Tell whether this backend itself defines the layout of the KV dtype."""
    return kv_dtypes.is_packed(kv_cache_dtype) and kv_cache_dtype in backend.kv_cache_dtypes


def _spell(demand: Demand) -> str:
    return ".".join(map(str, demand.compute_capability))
