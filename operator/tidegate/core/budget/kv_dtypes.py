"""Bytes that one token of one KV head takes, keys and values together, by KV cache dtype.

The names are the engine's own (--kv-cache-dtype). Sizes are those of vLLM 0.32 and 0.33.
"""

import math

from tidegate.api.reasons import Reason
from tidegate.core.budget.shape import ModelShape, element_bytes
from tidegate.errors import Refused

SIXTEEN_BIT = ("auto", "float16", "bfloat16")
FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")
PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
NVFP4 = ("nvfp4", "nvfp4_4over6")
# Bits of keys and of values; keys of 8 bits are plain fp8 without a norm of their own.
_TURBOQUANT_BITS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
TURBOQUANT = tuple(_TURBOQUANT_BITS)
# Layouts of sparse latent attention: bytes of a cached token, scales included.
_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
KNOWN = SIXTEEN_BIT + FP8 + PER_TOKEN_HEAD + NVFP4 + TURBOQUANT + tuple(_LATENT_BYTES)

_SCALE_BYTES = 4  # a float32 scale for keys and one for values, per token and head
_NVFP4_SCALE_GROUP = 16  # elements that share an fp8 scale


def resolve(kv_cache_dtype: str, shape: ModelShape) -> str:
    """Return the dtype that the engine uses: `auto` may follow a quantised checkpoint.

    Raises:
        Refused: KV_DTYPE_UNSUPPORTED, the name is none that can be sized.
    """
    if kv_cache_dtype not in KNOWN:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"KV cache dtype {kv_cache_dtype} is not one that attention on CUDA has; "
            f"use one of {', '.join(KNOWN)}",
            "spec.kvCache.dtype",
        )
    if kv_cache_dtype == "auto" and shape.quantization and shape.quantization.kv_cache_dtype:
        return shape.quantization.kv_cache_dtype
    return kv_cache_dtype


def is_packed(kv_cache_dtype: str) -> bool:
    """Tell whether the attention backend lays keys and values out in a way of its own."""
    return kv_cache_dtype in PER_TOKEN_HEAD + NVFP4 + TURBOQUANT


def storage_bytes(kv_cache_dtype: str, model_dtype: str) -> int:
    """Return bytes of one stored element, before a backend packs it."""
    if kv_cache_dtype == "auto":
        return element_bytes(model_dtype)
    return 2 if kv_cache_dtype in SIXTEEN_BIT else 1


def token_head_bytes(
    kv_cache_dtype: str, head_dim: int, value_head_dim: int, model_dtype: str
) -> int:
    """Return the bytes of the key and the value of one token and one KV head."""
    both = head_dim + value_head_dim
    if kv_cache_dtype in _TURBOQUANT_BITS:
        return _turboquant_bytes(kv_cache_dtype, head_dim)
    if kv_cache_dtype in NVFP4:
        return sum(dim // 2 + dim // _NVFP4_SCALE_GROUP for dim in (head_dim, value_head_dim))
    if kv_cache_dtype in PER_TOKEN_HEAD:
        packed = head_dim // 2 + value_head_dim // 2 if "int4" in kv_cache_dtype else both
        return packed + 2 * _SCALE_BYTES
    return both * storage_bytes(kv_cache_dtype, model_dtype)


def latent_bytes(kv_cache_dtype: str, cached_dim: int, model_dtype: str) -> int:
    """Return the bytes of one cached token of latent attention."""
    packed = _LATENT_BYTES.get(kv_cache_dtype)
    return cached_dim * storage_bytes(kv_cache_dtype, model_dtype) if packed is None else packed


def indexer_bytes(head_dim: int) -> int:
    """Return the bytes of one key of an indexer: 8 bits an element, a scale for each 128."""
    return head_dim + head_dim // 128 * _SCALE_BYTES


def _turboquant_bytes(kv_cache_dtype: str, head_dim: int) -> int:
    """Return the slot of one head: keys with a norm, values with scale and zero, made even."""
    key_bits, value_bits = _TURBOQUANT_BITS[kv_cache_dtype]
    key = head_dim if key_bits == 8 else math.ceil(head_dim * key_bits / 8) + 2
    slot = key + math.ceil(head_dim * value_bits / 8) + 4
    return slot + slot % 2
