"""What the engine decides for the caches of a model before it knows their block size.

For each kind of attention: the dtype of its cache, since some layers may keep the model's, and the
backend that serves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.api.reasons import Reason
from tidegate.core.budget import backends, kv_dtypes, latent_backends, parallelism
from tidegate.core.budget.demand import Backend, Demand
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import (
    Attention,
    AttentionMixer,
    CompressedAttention,
    LatentAttention,
    Mixer,
)
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused

_BOUNDARY_LAYERS = 2  # turboquant keeps the first and the last two at the model's dtype
# Models whose heads differ by layer: the engine runs them with one version of FlashAttention, and
# with Triton where that version is not there.
_HEADS_DIFFER = ("gemma4_text",)
# The engine gives these an fp8 cache on data center Blackwell if nothing else is asked for.
_FP8_ON_BLACKWELL = ("glm_moe_dsa",)
_TAKES_BFLOAT16_AS_AUTO = ("deepseek_v32",)


@dataclass(frozen=True)
class Choice:
    """The demand of a kind of attention, and the backend that serves it."""

    mixer: AttentionMixer
    demand: Demand
    backend: Backend

    @property
    def stored_dtype(self) -> str:
        """The KV dtype as the backend stores it."""
        return latent_backends.stored_dtype(self.backend, self.demand.kv_cache_dtype)

    def token_bytes(self, tensor_parallel: int, kv_cache_dtype: str | None = None) -> int:
        """Return the bytes of one token in one layer on each GPU, in this dtype or its own."""
        dtype = kv_cache_dtype or self.stored_dtype
        if not isinstance(self.mixer, Attention):
            return kv_dtypes.latent_bytes(dtype, self.demand.head_dim, self.demand.model_dtype)
        of_one_head = kv_dtypes.token_head_bytes(
            dtype, self.mixer.head_dim, self.mixer.value_head_dim, self.demand.model_dtype
        )
        return of_one_head * parallelism.kv_heads_per_gpu(self.mixer.kv_heads, tensor_parallel)


@dataclass(frozen=True)
class Choices:
    """The choices of a model: by mixer and by whether the layer keeps the model's dtype.

    `kept` are the indices of layers that do, `first` is the first layer's choice.
    """

    by_mixer: dict[tuple[AttentionMixer, bool], Choice]
    kept: frozenset[int]
    kv_cache_dtype: str

    @property
    def first(self) -> Choice | None:
        """The choice of the first layer that has attention; None if none has."""
        return next(iter(self.by_mixer.values()), None)


def make(
    shape: ModelShape,
    engine: EngineConfig,
    model_dtype: str,
    capability: tuple[int, int],
    drafted: Sequence[Mixer],
) -> Choices:
    """Choose for every layer of the model, then for those of the draft.

    Raises:
        Refused: the engine cannot run this combination.
    """
    kv_cache_dtype = _kv_cache_dtype(shape, engine, model_dtype, capability)
    kept = _kept(shape, engine, kv_cache_dtype)
    wanted: dict[tuple[AttentionMixer, bool], None] = {}
    for index, layer in enumerate(shape.layers):
        for mixer in layer.mixers:
            if isinstance(mixer, AttentionMixer) and not shares_kv(mixer):
                wanted[mixer, index in kept] = None
    for mixer in drafted:
        if isinstance(mixer, AttentionMixer):
            wanted[mixer, False] = None
    by_mixer = {}
    for mixer, is_kept in wanted:
        dtype = "auto" if is_kept else kv_cache_dtype
        demand = _demand(shape, engine, mixer, dtype, model_dtype, capability)
        by_mixer[mixer, is_kept] = Choice(mixer, demand, _backend(shape, engine, mixer, demand))
    return Choices(by_mixer, kept, kv_cache_dtype)


def shares_kv(mixer: Mixer) -> bool:
    """Tell whether a mixer reads the cache of an earlier layer."""
    return isinstance(mixer, Attention) and mixer.shares_kv


def _kv_cache_dtype(
    shape: ModelShape, engine: EngineConfig, model_dtype: str, capability: tuple[int, int]
) -> str:
    resolved = kv_dtypes.resolve(engine.kv_cache_dtype, shape)
    if resolved == "auto" and shape.model_type in _FP8_ON_BLACKWELL and capability[0] == 10:
        return "fp8_e4m3"
    if resolved == "bfloat16" and shape.model_type in _TAKES_BFLOAT16_AS_AUTO:
        return "auto"
    differs = resolved in ("float16", "bfloat16") and resolved != model_dtype
    if differs and not engine.version.startswith("0.32."):
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"KV cache dtype {resolved} differs from the model's {model_dtype}, which vLLM "
            f"{engine.version} refuses; use auto",
            "spec.kvCache.dtype",
        )
    return resolved


def _kept(shape: ModelShape, engine: EngineConfig, kv_cache_dtype: str) -> frozenset[int]:
    """Return the layers that keep the model's dtype."""
    layers = shape.layer_count
    beyond = [index for index in engine.kv_cache_skip_layers if not 0 <= index < layers]
    if beyond:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"skipLayers {beyond[0]}: the model has layers 0 to {layers - 1}",
            "spec.kvCache.skipLayers",
        )
    kept = set(engine.kv_cache_skip_layers)
    if engine.kv_cache_skip_windows:
        kept.update(index for index, layer in enumerate(shape.layers) if _has_window(layer.mixers))
    if kv_cache_dtype in kv_dtypes.TURBOQUANT:
        kept.update(_boundary(shape))
    return frozenset(kept)


def _has_window(mixers: Sequence[Mixer]) -> bool:
    return any(isinstance(mixer, Attention) and mixer.window for mixer in mixers)


def _boundary(shape: ModelShape) -> set[int]:
    """Return the layers at both ends that turboquant leaves alone; none in hybrid models.

    Raises:
        Refused: attention and recurrent state lie in one layer, so the engine finds no attention;
            or an end has a layer of chunked attention, whose backend cannot leave it alone.
    """
    mixed = [len(layer.mixers) > 1 for layer in shape.kinds]
    if any(mixed):
        _refuse_turboquant("layers that have attention beside a recurrent state")
    if shape.recurrent:
        return set()
    layers = shape.layer_count
    edge = min(_BOUNDARY_LAYERS, layers // 2)
    ends = {*range(edge), *range(layers - edge, layers)}
    mixers = [mixer for index in ends for mixer in shape.layers[index].mixers]
    if any(isinstance(mixer, Attention) and mixer.chunk for mixer in mixers):
        _refuse_turboquant("chunked attention in the first or last layers")
    return ends


def _refuse_turboquant(what: str) -> None:
    raise Refused(
        Reason.KV_DTYPE_UNSUPPORTED,
        f"turboquant does not run with {what}; use fp8 or auto",
        "spec.kvCache.dtype",
    )


def _demand(
    shape: ModelShape,
    engine: EngineConfig,
    mixer: AttentionMixer,
    kv_cache_dtype: str,
    model_dtype: str,
    capability: tuple[int, int],
) -> Demand:
    head_dim = mixer.cached_dim if isinstance(mixer, LatentAttention) else mixer.head_dim
    plain = Demand(
        head_dim,
        model_dtype,
        kv_cache_dtype,
        capability,
        heads=mixer.heads // engine.tensor_parallel,
        context_parallel=engine.decode_context_parallel,
    )
    if isinstance(mixer, CompressedAttention):
        return replace(plain, is_latent=True, is_sparse=True)
    if isinstance(mixer, LatentAttention):
        return replace(
            plain,
            is_latent=True,
            is_sparse=mixer.is_sparse,
            nope_dim=mixer.nope_dim,
        )
    heads_differ = shape.model_type in _HEADS_DIFFER and len(_head_dims(shape)) > 1
    is_fp8_on_hopper = capability[0] == 9 and kv_cache_dtype.startswith("fp8")
    return replace(
        plain,
        value_head_dim=mixer.value_head_dim,
        widest_head_dim=max(_head_dims(shape)) if heads_differ else None,
        has_window=mixer.window is not None,
        has_sinks=mixer.has_sinks,
        is_sparse=mixer.indexer is not None,
        images_both_ways=_images_both_ways(shape, engine),
        caps_scores=shape.caps_scores,
        needs_fa4=heads_differ and not is_fp8_on_hopper,
    )


def _images_both_ways(shape: ModelShape, engine: EngineConfig) -> bool:
    """Tell whether backends must allow it: not where a multimodal model takes no images."""
    return shape.images_both_ways and (engine.takes_images or not shape.modalities)


def _head_dims(shape: ModelShape) -> set[int]:
    return {
        mixer.head_dim
        for layer in shape.kinds
        for mixer in layer.mixers
        if isinstance(mixer, Attention)
    }


def _backend(
    shape: ModelShape, engine: EngineConfig, mixer: AttentionMixer, demand: Demand
) -> Backend:
    asked = engine.attention_backend
    if isinstance(mixer, Attention) and mixer.indexer is not None:
        asked = None  # these layers have a backend of their own, whatever the others are told
    if isinstance(mixer, CompressedAttention):
        backend = latent_backends.compressed()
        if asked not in (None, backend.name) or backend.fault(demand, engine.block_size):
            return backends.refuse((backend,), demand, engine.block_size)
        return backend
    if asked is None and demand.widest_head_dim and demand.major not in (9, 10):
        asked = "TRITON_ATTN"
    return backends.choose(demand, engine.block_size, asked)
