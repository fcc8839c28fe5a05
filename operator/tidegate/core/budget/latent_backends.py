"""The attention backends for latent attention, dense and sparse (vLLM 0.32 and 0.33)."""

from dataclasses import dataclass

from tidegate.core.budget import kv_dtypes
from tidegate.core.budget.demand import EVERY_16, Backend, Demand
from tidegate.core.budget.kernel_blocks import KernelBlocks

_SIXTEEN = kv_dtypes.SIXTEEN_BIT
_FP8 = ("fp8", "fp8_e4m3")
_CACHED_DIMS = (320, 512, 576)
_EVERY_64 = KernelBlocks(step=64)
_FEW_HEADS = 16


@dataclass(frozen=True)
class _Rejects:
    """What a latent backend demands: GPUs, sizes of a cached token and of heads, and its kind.

    An empty tuple takes all.
    """

    majors: tuple[int, ...] = ()
    cached_dims: tuple[int, ...] = _CACHED_DIMS
    nope_dims: tuple[int, ...] = ()
    is_sparse: bool = False

    def __call__(self, demand: Demand) -> str | None:
        """Return why the demand cannot be served, or None."""
        if demand.model_dtype == "float32":
            return "has no float32"
        if demand.is_sparse != self.is_sparse:
            return "serves sparse layers alone" if self.is_sparse else "has no sparse attention"
        if self.majors and demand.major not in self.majors:
            return f"needs compute capability {' or '.join(f'{one}.x' for one in self.majors)}"
        if self.cached_dims and demand.head_dim not in self.cached_dims:
            return f"has no latent size {demand.head_dim}"
        if self.nope_dims and demand.nope_dim not in self.nope_dims:
            return f"has no qk_nope_head_dim {demand.nope_dim}"
        return None


def _flash_mla_sparse(demand: Demand) -> str | None:
    if demand.kv_cache_dtype == "nvfp4_ds_mla" and demand.major != 10:
        return "has nvfp4_ds_mla only on compute capability 10.x"
    return _Rejects((9, 10), (576,), is_sparse=True)(demand)


_FLASH_ATTENTION = Backend("FLASH_ATTN_MLA", _SIXTEEN, _Rejects((9,)), has_context_parallel=True)
_FLASH_MLA = Backend(
    "FLASHMLA",
    (*_SIXTEEN, *_FP8),
    _Rejects((9,)),
    lambda demand: KernelBlocks((64,)),
    has_context_parallel=True,
)
_FLASHINFER = Backend(
    "FLASHINFER_MLA",
    (*_SIXTEEN, *_FP8),
    _Rejects((10,), nope_dims=(64, 128, 192)),
    lambda demand: KernelBlocks((32, 64)),
    has_context_parallel=True,
)
_CUTLASS = Backend(
    "CUTLASS_MLA",
    (*_SIXTEEN, *_FP8),
    _Rejects((10,)),
    lambda demand: KernelBlocks((128,)),
    has_context_parallel=True,
)
TRITON = Backend(
    "TRITON_MLA",
    (*_SIXTEEN, *_FP8),
    _Rejects(cached_dims=()),
    lambda demand: EVERY_16,
    has_context_parallel=True,
)
_FLASH_ATTENTION_SPARSE = Backend(
    "FLASH_ATTN_MLA_SPARSE", _SIXTEEN, _Rejects((9,), (), is_sparse=True), lambda demand: _EVERY_64
)
FLASH_MLA_SPARSE = Backend(
    "FLASHMLA_SPARSE",
    ("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"),
    _flash_mla_sparse,
    lambda demand: _EVERY_64,
    has_context_parallel=True,
)
_FLASHINFER_SPARSE = Backend(
    "FLASHINFER_MLA_SPARSE",
    (*_SIXTEEN, *_FP8),
    _Rejects((10,), (512, 576), is_sparse=True),
    lambda demand: KernelBlocks(step=32),
    has_context_parallel=True,
)
_FLASHINFER_SPARSE_HOPPER = Backend(
    "FLASHINFER_MLA_SPARSE_SM90",
    ("auto", "bfloat16", *_FP8),
    _Rejects((9,), (512, 576), is_sparse=True),
    lambda demand: _EVERY_64,
)
# The indexer is no backend that the engine chooses, but its kernels bound the block as one.
INDEXER = Backend(
    "DEEPSEEK_V32_INDEXER", (), lambda demand: None, lambda demand: KernelBlocks((64,))
)
_COMPRESSED = Backend(
    "FLASHMLA_SPARSE_DSV4",
    ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "fp8_ds_mla"),
    lambda demand: None if demand.major in (9, 10, 12) else "needs compute capability 9.0",
    lambda demand: KernelBlocks((256,)),
)


def in_order(demand: Demand) -> tuple[Backend, ...]:
    """Return the backends in the engine's order of preference."""
    if demand.major == 12:
        return (TRITON,)
    if demand.major != 10:
        dense = (_FLASH_ATTENTION, _FLASH_MLA, _FLASHINFER, TRITON)
        return (*dense, _FLASH_ATTENTION_SPARSE, FLASH_MLA_SPARSE, _FLASHINFER_SPARSE_HOPPER)
    sparse = (FLASH_MLA_SPARSE, _FLASHINFER_SPARSE)
    if demand.is_quantised or (demand.heads is not None and demand.heads <= _FEW_HEADS):
        sparse = (_FLASHINFER_SPARSE, FLASH_MLA_SPARSE)
    return (_FLASHINFER, _CUTLASS, _FLASH_ATTENTION, _FLASH_MLA, TRITON, *sparse)


def compressed() -> Backend:
    """Return the one backend of layers with compressed states."""
    return _COMPRESSED


def stored_dtype(backend: Backend, kv_cache_dtype: str) -> str:
    """Return the dtype as it is stored: sparse FlashMLA has a layout of its own for fp8."""
    is_plain = kv_cache_dtype in (*_SIXTEEN, "nvfp4_ds_mla")
    return "fp8_ds_mla" if backend is FLASH_MLA_SPARSE and not is_plain else kv_cache_dtype
