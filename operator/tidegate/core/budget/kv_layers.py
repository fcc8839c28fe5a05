"""The KV cache of each layer on one GPU: its dtype, the bytes of a token, the block size.

A layer's page is what one block of it takes. Layers may differ: some keep the model's dtype
while the others are quantised.
"""

from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.budget import backends, draft, kv_dtypes, parallelism
from tidegate.core.budget.backends import Backend, Demand
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import FullAttention, ModelShape
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


def build(
    shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]
) -> tuple[tuple[KVLayer, ...], ...]:
    """Return the layers that keep KV, by pipeline stage; a draft's are on the last one.

    Raises:
        Refused: the engine cannot run this combination.
    """
    choices = _choices(shape, engine, compute_capability)
    block_size = _block_size(choices, engine)
    built = {choice: _layer(choice, engine, block_size) for choice in set(choices)}
    layers = [built[choice] for choice in choices]
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


def _choices(shape: ModelShape, engine: EngineConfig, capability: tuple[int, int]) -> list[_Choice]:
    """Decide for each layer of the model, then for each of the draft."""
    dtype = model_dtype(shape, engine, capability)
    kv_cache_dtype = _checked_kv_dtype(shape, engine, dtype)
    skipped = _skipped(shape, engine, kv_cache_dtype)
    drafted = draft.read(shape, engine)
    layers = shape.layers + (drafted.layers if drafted else ())
    decided: dict[tuple[FullAttention, str], _Choice] = {}
    choices = []
    for index, layer in enumerate(layers):
        layer_dtype = "auto" if index in skipped else kv_cache_dtype
        key = (layer.attention, layer_dtype)
        if key not in decided:
            demand = Demand(layer.attention.head_dim, dtype, layer_dtype, capability)
            backend = backends.choose(demand, engine.block_size, engine.attention_backend)
            decided[key] = _Choice(layer.attention, demand, backend)
        choices.append(decided[key])
    return choices


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


def _token_bytes(choice: _Choice, engine: EngineConfig) -> int:
    attention = choice.attention
    of_one_head = kv_dtypes.token_head_bytes(
        choice.demand.kv_cache_dtype,
        attention.head_dim,
        attention.value_head_dim,
        choice.demand.model_dtype,
    )
    return of_one_head * parallelism.kv_heads_per_gpu(attention.kv_heads, engine.tensor_parallel)


def _layer(choice: _Choice, engine: EngineConfig, block_size: int) -> KVLayer:
    return KVLayer(_token_bytes(choice, engine), block_size)


def _block_size(choices: list[_Choice], engine: EngineConfig) -> int:
    """Return the block size after the engine's alignment, in tokens."""
    ordered = tuple(dict.fromkeys(choice.backend for choice in choices))
    size = engine.block_size or backends.preferred_block_size(ordered, choices[0].demand)
    has_skipped = len({choice.demand.kv_cache_dtype for choice in choices}) > 1
    return _grown_for_skipped(choices, engine, size) if has_skipped else size


def _grown_for_skipped(choices: list[_Choice], engine: EngineConfig, size: int) -> int:
    """Grow the block so that a quantised page covers the smallest page of a skipped layer.

    The engine measures the quantised page with the backend of the first layer; where that is a
    skipped one, its backend does not know the packing, and one byte per element counts.
    """
    quantised = next(one for one in choices if one.demand.kv_cache_dtype != "auto")
    kept = next(one for one in choices if one.demand.kv_cache_dtype == "auto")
    kept_bytes = _token_bytes(kept, engine)
    if backends.packs(choices[0].backend, quantised.demand.kv_cache_dtype):
        quantised_bytes = _token_bytes(quantised, engine)
    else:
        quantised_bytes = (
            kept_bytes
            * kv_dtypes.storage_bytes(quantised.demand.kv_cache_dtype, kept.demand.model_dtype)
            // kv_dtypes.storage_bytes("auto", kept.demand.model_dtype)
        )
    if quantised_bytes >= kept_bytes:
        return size
    smallest = choices[0].backend.block_multiple
    step = max(smallest, size)
    return max(size, step * -(-kept_bytes * smallest // (step * quantised_bytes)))
