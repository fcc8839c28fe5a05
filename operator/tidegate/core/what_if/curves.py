"""What-if curves: how many requests fit at once, by their length, KV type and tensor parallel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.budget import division, parallelism, pool
from tidegate.core.budget.division import Case
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts.gpus import Gpu

_SHORTEST = 1024
_STEPS_PER_DOUBLING = 2
_MOST_SIZES = 4


@dataclass(frozen=True)
class Curve:
    """One KV type at one tensor parallel: (tokens of a request, requests at once), falling.

    `refusal` says why there is no curve; one that is empty without it has no room for KV.
    """

    kv_cache_dtype: str
    tensor_parallel: int
    points: tuple[tuple[int, int], ...]
    refusal: str | None = None


@dataclass(frozen=True)
class Basis:
    """What a plan was made from beside the engine's flags and the GPU.

    `memory_share` is the share of a card that is planned; the bytes are the user's overrides, of
    the whole checkpoint, of activations and of the KV cache of each GPU.
    """

    model: ModelShape
    memory_share: float
    weights_bytes: int | None = None
    activations_bytes: int | None = None
    kv_cache_bytes: int | None = None


def of(
    basis: Basis, engine: EngineConfig, gpu: Gpu, kv_cache_dtypes: Sequence[str], most_gpus: int
) -> tuple[Curve, ...]:
    """Return the curves of a plan: every KV type at each tensor parallel that a node can hold."""
    possible = parallelism.choices(basis.model)
    sizes = {size for size in possible if size <= most_gpus}
    shown = sorted({engine.tensor_parallel, *sorted(sizes)[:_MOST_SIZES]})
    return tuple(
        _curve(basis, replace(engine, kv_cache_dtype=dtype, tensor_parallel=size), gpu)
        for size in shown
        for dtype in dict.fromkeys(kv_cache_dtypes)
    )


def lengths(longest: int) -> tuple[int, ...]:
    """Return lengths of requests in even steps of their logarithm, the longest at the end."""
    found, step = [], 0
    while (length := round(_SHORTEST * 2 ** (step / _STEPS_PER_DOUBLING))) < longest:
        found.append(length)
        step += 1
    return (*found, longest)


def _curve(basis: Basis, engine: EngineConfig, gpu: Gpu) -> Curve:
    dtype, size = engine.kv_cache_dtype, engine.tensor_parallel
    case = Case(
        basis.model,
        engine,
        gpu,
        basis.memory_share,
        basis.activations_bytes,
        basis.weights_bytes,
    )
    try:
        laid_out = pool.layout(case.shape, engine, case.compute_capability)
        left_bytes = division.divide(case).left_bytes
    except Refused as refusal:
        return Curve(dtype, size, (), f"{refusal.reason}: {refusal.message}")
    ceiling_bytes = left_bytes if basis.kv_cache_bytes is None else basis.kv_cache_bytes
    planned = pool.pool_of(laid_out, min(left_bytes, ceiling_bytes))
    counted = (
        (length, pool.requests_of(planned, length, 0)) for length in lengths(engine.max_model_len)
    )
    return Curve(dtype, size, tuple((length, count) for length, count in counted if count))
