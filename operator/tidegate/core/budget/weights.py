"""Bytes of a model's weights on each GPU, by pipeline stage."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.figures import Figure, estimated, measured
from tidegate.api.reasons import Reason
from tidegate.core.budget import bands, config_keys, mixer_weights, parallelism, quantization
from tidegate.core.budget.draft import Draft
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Absent, Dense, Experts
from tidegate.core.budget.mixers import AttentionMixer, LatentAttention, Mixer
from tidegate.core.budget.quantization import Quantization
from tidegate.core.budget.shape import Layer, ModelShape, element_bytes
from tidegate.errors import Refused

_VOCABULARY_MULTIPLE = 64  # the engine pads the vocabulary to it before sharding
_BYTES_FIELD = "spec.model.weights.bytes"


@dataclass(frozen=True)
class _Sizes:
    """What a weight costs: bytes of an element by what it belongs to, and the division.

    Routed experts are divided over `expert_ranks` GPUs: whole experts with expert parallel,
    slices of each else.
    """

    dtype_bytes: int
    attention: float
    dense: float
    experts: float
    hidden: int
    vocabulary: int
    tensor_parallel: int
    expert_ranks: int = 1
    whole_experts: bool = False


def of(
    shape: ModelShape, engine: EngineConfig, dtype: str, checkpoint_bytes: int | None = None
) -> Figure:
    """Return the bytes of weights on the GPU that holds most.

    `checkpoint_bytes`, the size of the whole checkpoint, replaces the arithmetic; it is divided
    over the GPUs as the arithmetic says, evenly where the config does not tell enough.

    Raises:
        Refused: the config lacks a size, or its quantisation is unknown, and nothing replaces it.
    """
    gpus = engine.tensor_parallel * engine.pipeline_parallel
    if checkpoint_bytes is not None:
        return measured(-(-checkpoint_bytes // gpus), f"{_BYTES_FIELD} over {gpus} GPUs")
    stages = _stages(shape, engine, dtype)
    likely = round(max(stages))
    is_quantized = _quantization(shape, engine) is not None
    term = "weights_quantized" if is_quantized else "weights_plain"
    text = bands.spread(lambda value: likely * value(term), f"config.json, {dtype}")
    vision = _vision(shape, dtype)
    return text if vision is None else text + vision


def of_draft(shape: ModelShape, draft: Draft, engine: EngineConfig, dtype: str) -> Figure:
    """Return the bytes of a draft's weights on each GPU of the last pipeline stage.

    Raises:
        Refused: the draft's config lacks a size.
    """
    own = draft.shape or shape
    sizes = _sizes(own, engine, dtype)
    count: float = sum(_layer(layer, sizes) for layer in draft.layers)
    inputs = 3 if draft.method == "eagle3" else 2
    if draft.method == "draft_model":
        count += _embedding(sizes) * (1 if own.tied_embeddings else 2)
    else:  # a projection of the target's hidden states; embeddings are the target's own
        count += inputs * sizes.hidden * sizes.hidden * sizes.dtype_bytes
        if own.draft_vocab_size:
            count += own.draft_vocab_size * sizes.hidden * sizes.dtype_bytes / sizes.tensor_parallel
    return bands.spread(
        lambda value: count * value("weights_quantized"), f"the {draft.method} draft's layers"
    )


def parameters(shape: ModelShape) -> tuple[int, int] | None:
    """Return the weights that one token passes through, and all weights; None if not known."""
    if shape.hidden_size is None or shape.vocab_size is None:
        return None
    if any(layer.mlp is None for layer in shape.kinds):
        return None
    one = _Sizes(1, 1, 1, 1, shape.hidden_size, shape.vocab_size, 1)
    counts = Counter(shape.kind_of)
    every = sum(_layer(shape.kinds[kind], one) * count for kind, count in counts.items())
    every += _embedding(one)
    idle = sum(
        (mlp.experts - mlp.experts_per_token) * _one_expert(mlp, one) * count
        for kind, count in counts.items()
        if isinstance(mlp := shape.kinds[kind].mlp, Experts)
    )
    return round(every - idle), round(every)


def _stages(shape: ModelShape, engine: EngineConfig, dtype: str) -> list[float]:
    """Return the bytes on one GPU of each pipeline stage."""
    sizes = _sizes(shape, engine, dtype)
    of_kind = [_layer(layer, sizes) for layer in shape.kinds]
    stages = [
        sum(of_kind[kind] for kind in shape.kind_of[stage.start : stage.stop])
        for stage in parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    ]
    embedding = _embedding(sizes)
    beside = shape.layer_embedding_elements * sizes.dtype_bytes / sizes.tensor_parallel
    stages[0] += embedding + beside + _rotary_cache(shape, dtype)
    shares_it = shape.tied_embeddings and len(stages) == 1
    stages[-1] += 0 if shares_it else embedding
    return stages


def _sizes(shape: ModelShape, engine: EngineConfig, dtype: str) -> _Sizes:
    if shape.hidden_size is None:
        _lacks("hidden_size")
    if shape.vocab_size is None:
        _lacks("vocab_size")
    size = element_bytes(dtype)
    found = _quantization(shape, engine)
    quantized = size if found is None else _quantized_bytes(found)
    only_experts = found is not None and found.experts_only
    skips_attention = found is not None and not found.quantizes_attention
    return _Sizes(
        dtype_bytes=size,
        attention=size if only_experts or skips_attention else quantized,
        dense=size if only_experts else quantized,
        experts=(found and found.expert_bytes_per_element) or quantized,
        hidden=shape.hidden_size,
        vocabulary=shape.vocab_size,
        tensor_parallel=engine.tensor_parallel,
        expert_ranks=engine.tensor_parallel * engine.data_parallel,
        whole_experts=engine.expert_parallel,
    )


def _quantized_bytes(found: Quantization) -> float:
    if found.bytes_per_element is not None:
        return found.bytes_per_element
    if not found.method:
        config_keys.invalid(
            "quantization_config",
            "is missing though expert_dtype is given, so the weights cannot be sized; add it, or "
            f"set {_BYTES_FIELD}",
        )
    raise Refused(
        Reason.MODEL_NOT_SIZED,
        f"weights quantised by {found.method!r} have no known size; set {_BYTES_FIELD} to the "
        "size of the checkpoint",
        _BYTES_FIELD,
    )


def _quantization(shape: ModelShape, engine: EngineConfig) -> Quantization | None:
    if shape.quantization is not None or engine.quantization is None:
        return shape.quantization
    found = quantization.by_flag(engine.quantization)
    if found is None:
        raise Refused(
            Reason.MODEL_NOT_SIZED,
            f"quantization {engine.quantization} of a checkpoint whose config.json has no "
            f"quantization_config cannot be sized; set {_BYTES_FIELD}",
            "spec.model.weights.quantization",
        )
    return found


def _layer(layer: Layer, sizes: _Sizes) -> float:
    mixed = sum(_mixer(mixer, sizes) for mixer in layer.mixers)
    return mixed + _feed_forward(layer, sizes) + 2 * _norm(sizes)


def _norm(sizes: _Sizes) -> int:
    return sizes.hidden * sizes.dtype_bytes


def _mixer(mixer: Mixer, sizes: _Sizes) -> float:
    counted = mixer_weights.count(mixer, sizes.hidden, sizes.tensor_parallel)
    return counted.quantised * sizes.attention + counted.plain * sizes.dtype_bytes


def _feed_forward(layer: Layer, sizes: _Sizes) -> float:
    mlp = layer.mlp
    if mlp is None:
        _lacks("intermediate_size")
    if isinstance(mlp, Absent):
        return 0
    if isinstance(mlp, Dense):
        dense = mlp.projections * sizes.hidden * mlp.intermediate_size * sizes.dense
        return dense / sizes.tensor_parallel
    experts: float = mlp.experts / sizes.expert_ranks
    if sizes.whole_experts:
        experts = math.ceil(experts)
    shared = mlp.projections * sizes.hidden * mlp.shared_intermediate_size * sizes.dense
    latent = 2 * sizes.hidden * (mlp.latent_size or 0) * sizes.dense
    router = mlp.experts * sizes.hidden * sizes.dtype_bytes
    return experts * _one_expert(mlp, sizes) + shared / sizes.tensor_parallel + latent + router


def _one_expert(mlp: Experts, sizes: _Sizes) -> float:
    width = mlp.latent_size or sizes.hidden
    return mlp.projections * width * mlp.intermediate_size * sizes.experts


def _embedding(sizes: _Sizes) -> float:
    padded = -(-sizes.vocabulary // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE
    return padded * sizes.hidden * sizes.dtype_bytes / sizes.tensor_parallel


def _rotary_cache(shape: ModelShape, dtype: str) -> int:
    """Return the cosines and sines that are kept for every position, of each size of heads."""
    dims = {
        mixer.rope_dim if isinstance(mixer, LatentAttention) else mixer.head_dim
        for layer in shape.kinds
        for mixer in layer.mixers
        if isinstance(mixer, AttentionMixer)
    }
    return shape.max_model_len * sum(dims) * element_bytes(dtype)


def _vision(shape: ModelShape, dtype: str) -> Figure | None:
    """Return the tower of a multimodal model, replicated or not; None for a text model."""
    config = shape.vision
    if config is None:
        return None
    size = _vision_elements(config, shape.hidden_size or 0) * element_bytes(dtype)
    figure = bands.spread(lambda value: size * value("weights_vision"), "vision_config")
    # Where the library fills in most of the tower's sizes, nothing below 2 GiB is excluded.
    return figure if size else estimated(2**30, 0, 2**31, "vision_config does not tell the sizes")


def _vision_elements(config: Mapping[str, Any], hidden: int) -> int:
    width = config_keys.integer(config, ("hidden_size", "embed_dim", "width"))
    depth = config_keys.integer(config, ("num_hidden_layers", "depth", "layers"))
    if width is None or depth is None:
        return 0
    inner = config_keys.integer(config, ("intermediate_size",)) or 4 * width
    merge = config_keys.integer(config, ("spatial_merge_size",)) or 1
    merged = width * merge**2
    projector = merged * merged + merged * hidden
    return depth * (4 * width**2 + 3 * width * inner) + projector


def _lacks(key: str) -> NoReturn:
    config_keys.invalid(
        key, f"is missing, so the weights cannot be sized; add it, or set {_BYTES_FIELD}"
    )
