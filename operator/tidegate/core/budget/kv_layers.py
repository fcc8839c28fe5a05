"""The KV cache of each layer on one GPU: its dtype, the bytes of a token, the block size.

A layer's page is what one block of it takes. Layers may differ: some keep the model's dtype
while the others are quantised.
"""

from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.budget import backends, draft, kv_dtypes, parallelism
from tidegate.core.budget.backends import Backend, Demand
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import FullAttention, Layer, ModelShape
from tidegate.errors import Refused

_BOUNDARY_LAYERS = 2  # turboquant keeps the first and the last two at the model's dtype


@dataclass(frozen=True)
class KVLayer:
    """A layer that keeps KV: bytes of one token on each GPU, and the block size in tokens."""

    token_bytes: int
    block_size: int

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of this layer."""
        return self.token_bytes * self.block_size


@dataclass(frozen=True)
class _Choice:
    """What was decided for layers that are alike."""

    attention: FullAttention
    demand: Demand
    backend: Backend


@dataclass(frozen=True)
class _Plan:
    """The choice of each layer, the draft's last; `keeps_some` if layers keep the model's dtype."""

    choices: list[_Choice]
    kv_cache_dtype: str
    keeps_some: bool


def build(
    shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]
) -> tuple[tuple[KVLayer, ...], ...]:
    """Return the layers that keep KV, by pipeline stage; a draft's are on the last one.

    Raises:
        Refused: the engine cannot run this combination.
    """
    plan = _plan(shape, engine, compute_capability)
    block_size = _block_size(plan, engine)
    # Layers that are alike share one choice, so each is worked out once.
    distinct = {id(one): one for one in plan.choices}
    built = {key: _layer(one, engine, block_size) for key, one in distinct.items()}
    layers = [built[id(one)] for one in plan.choices]
    by_stage = [
        tuple(layers[stage.start : stage.stop])
        for stage in parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    ]
    by_stage[-1] += tuple(layers[shape.layer_count :])
    return tuple(by_stage)


def model_dtype(shape: ModelShape, engine: EngineConfig, capability: tuple[int, int]) -> str:
    """Return the dtype that the engine runs the model in; `auto` follows checkpoint and GPU.

    Raises:
        Refused: bfloat16 is asked for on a GPU that has none.
    """
    if engine.model_dtype == "auto":
        return shape.dtype if capability >= (8, 0) else "float16"
    if engine.model_dtype == "bfloat16" and capability < (8, 0):
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            f"dtype bfloat16 needs compute capability 8.0, this GPU has "
            f"{capability[0]}.{capability[1]}; use float16",
            "spec.model.weights.dtype",
        )
    return engine.model_dtype


def _plan(shape: ModelShape, engine: EngineConfig, capability: tuple[int, int]) -> _Plan:
    """Decide for each layer of the model, then for each of the draft."""
    dtype = model_dtype(shape, engine, capability)
    kv_cache_dtype = _checked_kv_dtype(shape, engine, dtype)
    skipped = _skipped(shape, engine, kv_cache_dtype)

    def choose(layer: Layer, layer_dtype: str) -> _Choice:
        demand = Demand(layer.attention.head_dim, dtype, layer_dtype, capability)
        backend = backends.choose(demand, engine.block_size, engine.attention_backend)
        return _Choice(layer.attention, demand, backend)

    usual = [choose(layer, kv_cache_dtype) for layer in shape.kinds]
    kept = [choose(layer, "auto") for layer in shape.kinds] if skipped else []
    choices = [
        kept[kind] if index in skipped else usual[kind] for index, kind in enumerate(shape.kind_of)
    ]
    drafted = draft.read(shape, engine)
    if drafted is not None:
        choices += [choose(layer, kv_cache_dtype) for layer in drafted.layers]
    return _Plan(choices, kv_cache_dtype, bool(skipped))


def _checked_kv_dtype(shape: ModelShape, engine: EngineConfig, dtype: str) -> str:
    resolved = kv_dtypes.resolve(engine.kv_cache_dtype, shape)
    differs = resolved in ("float16", "bfloat16") and resolved != dtype
    if differs and not engine.version.startswith("0.32."):
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"KV cache dtype {resolved} differs from the model's {dtype}, which vLLM "
            f"{engine.version} refuses; use auto",
            "spec.kvCache.dtype",
        )
    return resolved


def _skipped(shape: ModelShape, engine: EngineConfig, kv_cache_dtype: str) -> frozenset[int]:
    """Return the layers that keep the model's dtype."""
    layers = shape.layer_count
    beyond = [index for index in engine.kv_cache_skip_layers if not 0 <= index < layers]
    if beyond:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"skipLayers {beyond[0]}: the model has layers 0 to {layers - 1}",
            "spec.kvCache.skipLayers",
        )
    skipped = set(engine.kv_cache_skip_layers)
    if kv_cache_dtype in kv_dtypes.TURBOQUANT:
        edge = min(_BOUNDARY_LAYERS, layers // 2)
        skipped.update(range(edge), range(layers - edge, layers))
    return frozenset(skipped)


def _token_bytes(
    attention: FullAttention, kv_cache_dtype: str, model_dtype: str, engine: EngineConfig
) -> int:
    of_one_head = kv_dtypes.token_head_bytes(
        kv_cache_dtype, attention.head_dim, attention.value_head_dim, model_dtype
    )
    return of_one_head * parallelism.kv_heads_per_gpu(attention.kv_heads, engine.tensor_parallel)


def _layer(choice: _Choice, engine: EngineConfig, block_size: int) -> KVLayer:
    demand = choice.demand
    token_bytes = _token_bytes(choice.attention, demand.kv_cache_dtype, demand.model_dtype, engine)
    return KVLayer(token_bytes, block_size)


def _block_size(plan: _Plan, engine: EngineConfig) -> int:
    """Return the block size after the engine's alignment, in tokens."""
    first = plan.choices[0]
    ordered = tuple(dict.fromkeys(choice.backend for choice in plan.choices))
    size = engine.block_size or backends.preferred_block_size(ordered, first.demand)
    return _grown_for_kept(plan, engine, size) if plan.keeps_some else size


def _grown_for_kept(plan: _Plan, engine: EngineConfig, size: int) -> int:
    """Grow the block so that a quantised page covers the smallest page of a layer that is kept.

    The engine measures the quantised page with the backend of the first layer; where that is a
    kept one, its backend does not know the packing, and one byte per element counts.
    """
    first = plan.choices[0]
    dtype = first.demand.model_dtype
    kept_bytes = _token_bytes(first.attention, "auto", dtype, engine)
    if backends.packs(first.backend, plan.kv_cache_dtype):
        quantised_bytes = _token_bytes(first.attention, plan.kv_cache_dtype, dtype, engine)
    else:
        stored = kv_dtypes.storage_bytes(plan.kv_cache_dtype, dtype)
        quantised_bytes = kept_bytes * stored // kv_dtypes.storage_bytes("auto", dtype)
    if quantised_bytes >= kept_bytes:
        return size
    smallest = first.backend.block_multiple
    step = max(smallest, size)
    return max(size, step * -(-kept_bytes * smallest // (step * quantised_bytes)))
