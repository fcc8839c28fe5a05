"""What the engine decides for the caches of a model before it knows their block size.

For each kind of attention: the dtype of its cache, since some layers may keep the model's, and the
backend that serves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from tidegate.api.reasons import Reason
from tidegate.core.budget import backends, kept_layers, kv_dtypes, latent_backends, parallelism
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

# Models whose heads differ by layer: the engine runs them with one version of FlashAttention, and
# with Triton where that version is not there.
_HEADS_DIFFER = ("gemma4_text",)
# The engine gives these an fp8 cache on data center Blackwell if nothing else is asked for.
_FP8_ON_BLACKWELL = ("glm_moe_dsa",)
_TAKES_BFLOAT16_AS_AUTO = ("deepseek_v32",)


class Part(Enum):
    """Which of a model's layers: a kept one has the model's dtype, a draft's may have its own."""

    PLAIN = auto()
    KEPT = auto()
    DRAFT = auto()


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
    """The choices of a model: by mixer and by part.

    `kept` are the indices of layers that keep the model's dtype, those from `layers` on are a
    draft's. `first` is the first layer's choice.
    """

    by_mixer: dict[tuple[AttentionMixer, Part], Choice]
    kept: frozenset[int]
    layers: int
    kv_cache_dtype: str

    def part(self, index: int) -> Part:
        """Return the part that a layer is of."""
        if index >= self.layers:
            return Part.DRAFT
        return Part.KEPT if index in self.kept else Part.PLAIN

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
    kept = kept_layers.of(shape, engine, kv_cache_dtype)
    wanted: dict[tuple[AttentionMixer, Part], None] = {}
    for index, layer in enumerate(shape.layers):
        part = Part.KEPT if index in kept else Part.PLAIN
        for mixer in layer.mixers:
            if isinstance(mixer, AttentionMixer) and not shares_kv(mixer):
                wanted[mixer, part] = None
    for mixer in drafted:
        if isinstance(mixer, AttentionMixer):
            wanted[mixer, Part.DRAFT] = None
    of_draft = _of_draft(engine)
    draft_dtype = _draft_dtype(shape, engine, kv_cache_dtype, model_dtype, capability)
    dtypes = {Part.PLAIN: kv_cache_dtype, Part.KEPT: "auto", Part.DRAFT: draft_dtype}
    by_mixer = {}
    for mixer, part in wanted:
        flags = of_draft if part is Part.DRAFT else engine
        demand = _demand(shape, flags, mixer, dtypes[part], model_dtype, capability)
        by_mixer[mixer, part] = Choice(mixer, demand, _backend(shape, flags, mixer, demand))
    return Choices(by_mixer, kept, shape.layer_count, kv_cache_dtype)


def _of_draft(engine: EngineConfig) -> EngineConfig:
    """Return the flags that a draft's layers are made with."""
    asked = engine.speculative.attention_backend if engine.speculative else None
    return engine if asked is None else replace(engine, attention_backend=asked)


def _draft_dtype(
    shape: ModelShape,
    engine: EngineConfig,
    kv_cache_dtype: str,
    model_dtype: str,
    capability: tuple[int, int],
) -> str:
    """Return the dtype of a draft's cache: its own, or the model's; its `auto` is the dtype."""
    asked = engine.speculative.kv_cache_dtype if engine.speculative else None
    if asked is None or asked == "auto":
        return asked or kv_cache_dtype
    flags = replace(engine, kv_cache_dtype=asked)
    return _kv_cache_dtype(shape, flags, model_dtype, capability)


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
