"""Bytes on each GPU of the tensors that a checkpoint really has, by pipeline stage."""

import math

from tidegate.core.budget import parallelism
from tidegate.core.budget.checkpoint import Checkpoint, Tensors
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Experts
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.tensor_roles import Part, Role

_LINEAR = (Role.DIVIDED, Role.KV, Role.QKV, Role.EXPERTS)


def stages(
    found: Checkpoint,
    shape: ModelShape,
    engine: EngineConfig,
    dtype_bytes: int,
    linear_bytes: float | None,
) -> list[float]:
    """Return the bytes of the decoder on one GPU of each pipeline stage.

    `dtype_bytes` is an element of the model's dtype; `linear_bytes` one of a matrix that the
    engine quantises while it loads, None where it does not.
    """
    of_layer = _stage_of_layer(shape, engine)
    sums = [0.0] * engine.pipeline_parallel
    for one in found.tensors:
        within, role = one.place.within, one.place.role
        share = _bytes(one, dtype_bytes, linear_bytes)
        if isinstance(within, int):
            sums[of_layer[within]] += share * _divided(role, within, shape, engine)
        elif within is Part.OUTER:
            for stage in _stages_of(role, found, shape, len(sums)):
                sums[stage] += share * _divided(role, 0, shape, engine)
    return sums


def of_draft(
    found: Checkpoint, shape: ModelShape, engine: EngineConfig, dtype_bytes: int
) -> float | None:
    """Return the bytes of its layers for multi-token prediction; None where it tells of none.

    Embeddings and head are the model's own.
    """
    parts = [
        one
        for one in found.tensors
        if one.place.within is Part.DRAFT and one.place.role not in (Role.EMBEDDING, Role.HEAD)
    ]
    last = shape.layer_count - 1
    sizes = [
        _bytes(one, dtype_bytes, None) * _divided(one.place.role, last, shape, engine)
        for one in parts
    ]
    return sum(sizes) if sizes else None


def of_tower(found: Checkpoint, dtype_bytes: int) -> float:
    """Return the bytes of the tower of a multimodal model, as one GPU alone would hold it."""
    return sum(
        _bytes(one, dtype_bytes, None) for one in found.tensors if one.place.within is Part.TOWER
    )


def _bytes(one: Tensors, dtype_bytes: int, linear_bytes: float | None) -> float:
    if linear_bytes is None or one.place.role not in _LINEAR:
        return one.elements * dtype_bytes + one.stored_bytes
    plain = one.elements - one.matrix_elements
    return plain * dtype_bytes + one.matrix_elements * linear_bytes + one.stored_bytes


def _stages_of(role: Role, found: Checkpoint, shape: ModelShape, count: int) -> tuple[int, ...]:
    """Return the stages that hold a tensor outside of the layers."""
    last = count - 1
    if role is Role.HEAD:
        return () if shape.tied_embeddings else (last,)
    if role is not Role.EMBEDDING:
        return (last,)  # the norm before the head
    serves_as_head = shape.tied_embeddings or not found.has_head
    return (0, last) if serves_as_head and last else (0,)


def _stage_of_layer(shape: ModelShape, engine: EngineConfig) -> list[int]:
    divided = parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    return [number for number, stage in enumerate(divided) for _ in stage]


def _divided(role: Role, layer: int, shape: ModelShape, engine: EngineConfig) -> float:
    """Return the share of a tensor that one GPU holds; above its part where some is replicated."""
    size = engine.tensor_parallel
    match role:
        case Role.WHOLE:
            return 1
        case Role.EMBEDDING | Role.HEAD:
            return _padded(shape.vocab_size) / size
        case Role.EXPERTS:
            return _of_experts(layer, shape, engine)
        case Role.KV | Role.QKV:
            return _of_heads(role, layer, shape, size)
        case Role.DIVIDED:
            return 1 / size


def _padded(vocabulary: int | None) -> float:
    """Return how much the engine's padding of the vocabulary adds."""
    return parallelism.padded_vocabulary(vocabulary) / vocabulary if vocabulary else 1


def _of_experts(layer: int, shape: ModelShape, engine: EngineConfig) -> float:
    ranks = engine.tensor_parallel * engine.data_parallel
    mlp = shape.layers[layer].mlp
    if engine.expert_parallel and isinstance(mlp, Experts):
        return math.ceil(mlp.experts / ranks) / mlp.experts
    return 1 / ranks


def _of_heads(role: Role, layer: int, shape: ModelShape, size: int) -> float:
    """Return the share of keys and values, or of all three, that one GPU holds."""
    attention = shape.layers[layer].attention
    if attention is None:
        return 1 / size
    held = parallelism.kv_heads_per_gpu(attention.kv_heads, size)
    if role is Role.KV:
        return held / attention.kv_heads
    both = attention.head_dim + attention.value_head_dim
    queries, keys = attention.heads * attention.head_dim, attention.kv_heads * both
    return (queries / size + held * both) / (queries + keys)
