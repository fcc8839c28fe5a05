"""Weights of what mixes tokens in a layer, on one GPU, in elements."""

from dataclasses import dataclass
from typing import assert_never

from tidegate.core.budget import parallelism
from tidegate.core.budget.mixers import (
    Attention,
    AttentionMixer,
    CompressedAttention,
    Indexer,
    LatentAttention,
    LowRank,
    Mixer,
)


@dataclass(frozen=True)
class Counted:
    """Elements that a quantised checkpoint stores quantised, and those that stay in 16 bits."""

    quantised: float
    plain: float = 0


def count(mixer: Mixer, hidden: int, tensor_parallel: int) -> Counted:
    """Return the weights of a mixer on each GPU in a model of that hidden size."""
    if not isinstance(mixer, AttentionMixer):
        return Counted(mixer.parameters(hidden) / tensor_parallel)
    if isinstance(mixer, Attention):
        return _attention(mixer, hidden, tensor_parallel)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, hidden, tensor_parallel)
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer, hidden, tensor_parallel)
    assert_never(mixer)


def _attention(attention: Attention, hidden: int, tensor_parallel: int) -> Counted:
    if not attention.has_own_weights:
        return Counted(0)
    if attention.low_rank is not None:
        return Counted(_low_rank(attention, attention.low_rank, hidden, tensor_parallel))
    heads = attention.heads // tensor_parallel
    kv_heads = parallelism.kv_heads_per_gpu(attention.kv_heads, tensor_parallel)
    kv_heads = 0 if attention.shares_kv else kv_heads
    both = attention.head_dim + attention.value_head_dim
    gate = heads * attention.value_head_dim if attention.is_gated else 0
    bias = heads * attention.head_dim + kv_heads * both if attention.has_bias else 0
    index = 0
    if attention.indexer is not None:  # queries are divided, the key is on every GPU
        index_heads = parallelism.kv_heads_per_gpu(attention.indexer.heads, tensor_parallel)
        index = attention.indexer.head_dim * (index_heads + 1)
    return Counted(hidden * ((heads + kv_heads) * both + gate + index), bias)


def _low_rank(attention: Attention, low_rank: LowRank, hidden: int, tensor_parallel: int) -> float:
    """Return the projections; those into a rank are on every GPU."""
    heads = attention.heads / tensor_parallel
    nope_dim = attention.head_dim - low_rank.rope_dim
    return (
        hidden * (low_rank.query_rank + low_rank.latent_rank + low_rank.rope_dim)
        + low_rank.query_rank * heads * attention.head_dim
        + low_rank.latent_rank * heads * (nope_dim + low_rank.value_dim)
        + heads * low_rank.value_dim * hidden
    )


def _latent(latent: LatentAttention, hidden: int, tensor_parallel: int) -> Counted:
    """Return the projections; those into the latent are on every GPU.

    The engine keeps the projection out of the latent twice: as it is for prefill, and absorbed
    into queries and outputs, in 16 bits, for decode.
    """
    heads = latent.heads / tensor_parallel
    queries = heads * (latent.nope_dim + latent.rope_dim)
    out_of_latent = heads * latent.latent_rank * (latent.nope_dim + latent.value_head_dim)
    from_hidden = latent.query_rank or 0
    asked = from_hidden * queries if latent.query_rank else hidden * queries
    quantised = (
        hidden * (from_hidden + latent.cached_dim)
        + asked
        + out_of_latent
        + heads * latent.value_head_dim * hidden
    )
    indexed = _indexer(latent.indexer, hidden, from_hidden)
    gate = hidden * heads * latent.value_head_dim if latent.is_gated else 0
    return Counted(quantised + indexed + gate, out_of_latent)


def _compressed(attention: CompressedAttention, hidden: int, tensor_parallel: int) -> Counted:
    """Return the projections; those of keys, and the compressor, are on every GPU."""
    heads = attention.heads / tensor_parallel
    output = attention.output_groups * attention.output_rank / tensor_parallel
    into_groups = attention.heads * attention.head_dim / attention.output_groups
    quantised = (
        hidden * (attention.query_rank + attention.head_dim)
        + attention.query_rank * heads * attention.head_dim
        + output * (into_groups + hidden)
    )
    # Sums of keys and of scores, twice where states overlap.
    widths = {1: 0, 4: 4 * attention.head_dim}.get(attention.ratio, 2 * attention.head_dim)
    if attention.indexer is not None:
        widths += 4 * attention.indexer.head_dim
    indexed = _indexer(attention.indexer, hidden, attention.query_rank)
    return Counted(quantised + indexed, hidden * widths)


def _indexer(indexer: Indexer | None, hidden: int, query_rank: int) -> float:
    if indexer is None:
        return 0
    return query_rank * indexer.heads * indexer.head_dim + hidden * (
        indexer.head_dim + indexer.heads
    )
