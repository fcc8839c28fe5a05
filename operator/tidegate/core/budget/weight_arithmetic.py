"""Bytes of a model's weights on each GPU by the arithmetic of its config.json."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import config_keys, mixer_weights, parallelism, quantization
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Absent, Dense, Experts
from tidegate.core.budget.mixers import AttentionMixer, LatentAttention, Mixer
from tidegate.core.budget.quantization import Quantization
from tidegate.core.budget.shape import Layer, ModelShape, element_bytes
from tidegate.errors import Refused

# Kernels pad the width of experts on each GPU, and the hidden size, to multiples of these: Marlin
# on Ampere and Hopper, TensorRT-LLM's on Blackwell (vLLM 0.32).
_PADDED = dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), (128, 256))
BYTES_FIELD = "spec.model.weights.bytes"


@dataclass(frozen=True)
class Sizes:
    """What a weight costs: bytes of an element by what it belongs to, and the division.

    Routed experts are divided over `expert_ranks` GPUs: whole experts with expert parallel,
    slices of each else. Their width and the hidden size that they work on are padded to
    `expert_multiples`.
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
    expert_multiples: tuple[int, int] = (1, 1)


def stages(shape: ModelShape, engine: EngineConfig, dtype: str) -> list[float]:
    """Return the bytes on one GPU of each pipeline stage.

    Raises:
        Refused: the config lacks a size, or its quantisation is unknown.
    """
    sizes = sizes_of(shape, engine, dtype)
    of_kind = [layer_bytes(layer, sizes) for layer in shape.kinds]
    stages = [
        sum(of_kind[kind] for kind in shape.kind_of[stage.start : stage.stop])
        for stage in parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    ]
    embedded = embedding(sizes)
    beside = shape.beside_layers_elements * sizes.dtype_bytes / sizes.tensor_parallel
    stages[0] += embedded + beside + rotary_cache(shape, dtype)
    shares_it = shape.tied_embeddings and len(stages) == 1
    stages[-1] += 0 if shares_it else embedded
    return stages


def sizes_of(shape: ModelShape, engine: EngineConfig, dtype: str) -> Sizes:
    """Return what a weight costs.

    Raises:
        Refused: the config lacks a size, or its quantisation is unknown.
    """
    if shape.hidden_size is None:
        _lacks("hidden_size")
    if shape.vocab_size is None:
        _lacks("vocab_size")
    size = element_bytes(dtype)
    found = quantization_of(shape, engine)
    quantized = size if found is None else _quantized_bytes(found)
    only_experts = found is not None and found.experts_only
    skips_dense = found is not None and not found.quantizes_dense
    skips_attention = found is not None and not found.quantizes_attention
    return Sizes(
        dtype_bytes=size,
        attention=(
            size
            if only_experts or skips_attention
            else (found and found.attention_bytes_per_element) or quantized
        ),
        dense=size if only_experts or skips_dense else quantized,
        experts=(found and found.expert_bytes_per_element) or quantized,
        hidden=shape.hidden_size,
        vocabulary=shape.vocab_size,
        tensor_parallel=engine.tensor_parallel,
        expert_ranks=engine.tensor_parallel * engine.data_parallel,
        whole_experts=engine.expert_parallel,
        expert_multiples=_PADDED.get(found.method if found else "", (1, 1)),
    )


def _quantized_bytes(found: Quantization) -> float:
    if found.bytes_per_element is not None:
        return found.bytes_per_element
    if not found.method:
        config_keys.invalid(
            "quantization_config",
            "is missing though expert_dtype is given, so the weights cannot be sized; add it, or "
            f"set {BYTES_FIELD}",
        )
    raise Refused(
        Reason.MODEL_NOT_SIZED,
        f"weights quantised by {found.method!r} have no known size; set {BYTES_FIELD} to the "
        "size of the checkpoint",
        BYTES_FIELD,
    )


def quantization_of(shape: ModelShape, engine: EngineConfig) -> Quantization | None:
    """Return how weights are quantised: by the checkpoint, or by the engine while it loads them.

    Raises:
        Refused: --quantization names a method whose sizes are not known.
    """
    if shape.quantization is not None or engine.quantization is None:
        return shape.quantization
    found = quantization.by_flag(engine.quantization)
    if found is None:
        raise Refused(
            Reason.MODEL_NOT_SIZED,
            f"quantization {engine.quantization} of a checkpoint whose config.json has no "
            f"quantization_config cannot be sized; set {BYTES_FIELD}",
            "spec.model.weights.quantization",
        )
    return found


def layer_bytes(layer: Layer, sizes: Sizes) -> float:
    """Return the bytes of a layer on one GPU."""
    mixed = sum(_mixer(mixer, sizes) for mixer in layer.mixers)
    return mixed + _feed_forward(layer, sizes) + 2 * _norm(sizes)


def _norm(sizes: Sizes) -> int:
    return sizes.hidden * sizes.dtype_bytes


def _mixer(mixer: Mixer, sizes: Sizes) -> float:
    counted = mixer_weights.count(mixer, sizes.hidden, sizes.tensor_parallel)
    return counted.quantised * sizes.attention + counted.plain * sizes.dtype_bytes


def _feed_forward(layer: Layer, sizes: Sizes) -> float:
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
    return experts * one_expert(mlp, sizes) + shared / sizes.tensor_parallel + latent + router


def one_expert(mlp: Experts, sizes: Sizes) -> float:
    """Return the bytes of one routed expert."""
    of_width, of_hidden = sizes.expert_multiples
    slices = 1 if sizes.whole_experts else sizes.expert_ranks
    inner = _padded(mlp.intermediate_size / slices, of_width) * slices
    return (
        mlp.projections
        * _padded(mlp.latent_size or sizes.hidden, of_hidden)
        * inner
        * (sizes.experts)
    )


def _padded(width: float, multiple: int) -> float:
    return width if multiple == 1 else math.ceil(width / multiple) * multiple


def embedding(sizes: Sizes) -> float:
    """Return the bytes of the embeddings, or of the head, on one GPU."""
    padded = parallelism.padded_vocabulary(sizes.vocabulary)
    return padded * sizes.hidden * sizes.dtype_bytes / sizes.tensor_parallel


def rotary_cache(shape: ModelShape, dtype: str) -> int:
    """Return the cosines and sines that are kept for every position, of each size of heads."""
    dims = {
        mixer.rope_dim if isinstance(mixer, LatentAttention) else mixer.head_dim
        for layer in shape.kinds
        for mixer in layer.mixers
        if isinstance(mixer, AttentionMixer)
    }
    return shape.max_model_len * sum(dims) * element_bytes(dtype)


def vision_elements(config: Mapping[str, Any], hidden: int) -> int:
    """Return the weights of a vision tower and its projector; 0 if the config tells too little."""
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
        key, f"is missing, so the weights cannot be sized; add it, or set {BYTES_FIELD}"
    )
