"""Which attention backend the engine chooses for a layer, and what block size it prefers.

The first backend in the engine's order of preference that supports the layer, the dtypes and the
compute capability is taken (vLLM 0.32 and 0.33 on CUDA).
"""

from collections.abc import Sequence

from tidegate.api.reasons import Reason
from tidegate.core.budget import head_backends, kernel_blocks, kv_dtypes, latent_backends
from tidegate.core.budget.demand import Backend, Demand
from tidegate.errors import Refused

DEFAULT_BLOCK_SIZE = 16


def choose(demand: Demand, block_size: int | None, asked: str | None) -> Backend:
    """Return the backend that the engine takes for a layer.

    Raises:
        Refused: no backend can serve the demand, or not the one that was asked for.
    """
    order = latent_backends.in_order if demand.is_latent else head_backends.in_order
    ordered = order(demand)
    if asked is not None:
        return _the_one_asked(asked, ordered, demand, block_size)
    for backend in ordered:
        if backend.fault(demand, block_size) is None:
            _refuse_late(backend, demand)
            return backend
    return refuse(ordered, demand, block_size)


def refuse(ordered: Sequence[Backend], demand: Demand, block_size: int | None) -> Backend:
    """Refuse a demand that none of the backends serves, each with its reason.

    Raises:
        Refused: always; BLOCK_SIZE_UNSUPPORTED where another block size would do.
    """
    would = [one for one in ordered if one.fault(demand, None) is None]
    if block_size is not None and would:
        sizes = would[0].blocks(demand.of_model)
        raise Refused(
            Reason.BLOCK_SIZE_UNSUPPORTED,
            f"blocks of {block_size} tokens: use a multiple of {sizes.smallest}",
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
    asked: str, ordered: Sequence[Backend], demand: Demand, block_size: int | None
) -> Backend:
    found = next((one for one in ordered if one.name == asked), None)
    if found is None:
        names = ", ".join(one.name for one in ordered)
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"attention backend {asked} is not one for this model's attention on CUDA: use {names}",
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
    is_triton = backend in (head_backends.TRITON, latent_backends.TRITON)
    is_fp8 = demand.kv_cache_dtype.startswith("fp8")
    if is_triton and is_fp8 and demand.compute_capability < (8, 9):
        others = "auto" if demand.is_latent else "auto and int8_per_token_head"
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"KV cache dtype {demand.kv_cache_dtype} in {backend.name} needs compute capability "
            f"8.9, this GPU has {_spell(demand)}; {others} would do",
            "spec.kvCache.dtype",
        )


def preferred_block_size(chosen: Sequence[tuple[Backend, Demand]]) -> int:
    """Return the block size that the engine takes when none is asked for.

    Raises:
        Refused: the backends share no block size.
    """
    distinct = {backend.name: (backend, demand) for backend, demand in chosen}
    blocks = [backend.blocks(demand.of_model) for backend, demand in distinct.values()]
    if all(one.takes(DEFAULT_BLOCK_SIZE) for one in blocks):
        return DEFAULT_BLOCK_SIZE
    size = kernel_blocks.smallest_for_all(blocks)
    if size is None:
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"the attention backends {', '.join(distinct)} share no block size",
            "spec.engine.attentionBackend",
        )
    return size


def packs(backend: Backend, kv_cache_dtype: str) -> bool:
    """Tell whether this backend itself defines the layout of the KV dtype."""
    return kv_dtypes.is_packed(kv_cache_dtype) and kv_cache_dtype in backend.kv_cache_dtypes


def _spell(demand: Demand) -> str:
    return ".".join(map(str, demand.compute_capability))
