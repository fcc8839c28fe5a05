"""The attention of each layer, by config.json: heads, their sizes, and what may differ by layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.core.budget import (
    config_keys,
    head_variants,
    layer_kinds,
    layer_values,
    shared_blocks,
)
from tidegate.core.budget.layer_kinds import Kind
from tidegate.core.budget.mixers import Attention

# The engine takes the first that is present (its model configuration's own order).
_KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
# Where config.json is silent, the engine's model library fills these in (transformers 5).
_LIBRARY_KV_HEADS = {
    "mistral": 8,
    "mixtral": 8,
    "phimoe": 8,
    "qwen2": 32,
    "qwen3": 32,
    "qwen3_moe": 4,
    "qwen3_next": 2,
    "glm": 2,
    "glm4": 2,
    "starcoder2": 2,
    "seed_oss": 8,
    "smollm3": 4,
    "gpt_oss": 8,
    "jamba": 8,
    "lfm2": 8,
    "falcon_h1": 8,
    "nemotron_h": 8,
    "gemma2": 4,
    "gemma3_text": 4,
    "gemma3n_text": 2,
    "gemma4_text": 4,
}
_LIBRARY_HEAD_DIM = {
    "qwen3": 128,
    "glm": 128,
    "glm4": 128,
    "seed_oss": 128,
    "ernie4_5": 128,
    "gemma2": 256,
    "gemma3_text": 256,
    "gemma3n_text": 256,
    "gemma4_text": 256,
    "qwen3_next": 256,
    "qwen3_5_text": 256,
    "qwen3_5_moe_text": 256,
    "nemotron_h": 128,
    "llama4_text": 128,
    "gpt_oss": 64,
    "cwm": 128,
    "afmoe": 128,
}
_HEAD_DIM = ("head_dim", "hidden_size_per_head", "kv_channels")
_SHARES_KV = {"gemma3n_text": 15, "gemma4_text": 0}  # layers that do, by default
_SPELLS_OUT_HEAD_DIM = ("nemotron_h", "hunyuan_v1_dense", "hunyuan_v1_moe")
_WITH_SINKS = ("gpt_oss",)
_GATED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "afmoe")


def keys_of(model_type: str) -> frozenset[str]:
    """Return the keys about attention that are understood for a model type."""
    keys = set(head_variants.keys_of(model_type) | layer_values.keys_of(model_type))
    if model_type in _SHARES_KV:
        keys.add("num_kv_shared_layers")
    if model_type in _SPELLS_OUT_HEAD_DIM:
        keys.add("attention_head_dim")
    if model_type in shared_blocks.MODEL_TYPES:
        keys |= shared_blocks.KEYS
    if model_type == "granite":
        keys.add("attention_sinks")
    return frozenset(keys)


def read(
    text: Mapping[str, Any], model_type: str, kinds: Sequence[Kind]
) -> Callable[[Kind, int], Attention | None]:
    """Return a function from a layer's kind and index to its attention, None if it has none.

    Raises:
        Refused: a key is missing or makes no sense.
    """
    if not any(kind in _WITH_ATTENTION for kind in kinds):
        return lambda kind, index: None
    by_kind = {
        kind: _of_kind(text, model_type, kind)
        for kind in (*dict.fromkeys(kinds), Kind.FULL, Kind.SLIDING)
        if kind in _WITH_ATTENTION
    }
    shared = config_keys.integer(text, ("num_kv_shared_layers",), at_least=0)
    first_shared = len(kinds) - (_SHARES_KV.get(model_type, 0) if shared is None else shared)
    of_layer = layer_values.read(text, model_type, len(kinds))

    def attention(kind: Kind, index: int) -> Attention | None:
        found = by_kind.get(kind)
        if found is None:
            return None
        found = of_layer(found, index)
        return replace(found, shares_kv=True) if first_shared <= index < len(kinds) else found

    return attention


_WITH_ATTENTION = (Kind.FULL, Kind.SLIDING, Kind.CHUNKED, Kind.BOTH)


def _of_kind(text: Mapping[str, Any], model_type: str, kind: Kind) -> Attention:
    if model_type in shared_blocks.MODEL_TYPES:
        return shared_blocks.attention(text)
    if head_variants.is_low_rank(model_type):
        return head_variants.low_rank(text)
    attention = head_variants.of_kind(text, model_type, _plain(text, model_type), kind)
    if kind is Kind.SLIDING:
        return replace(attention, window=layer_kinds.window(text, model_type))
    if kind is Kind.CHUNKED:
        chunk = config_keys.required(text, ("attention_chunk_size",))
        return replace(attention, chunk=chunk)
    return attention


def _plain(text: Mapping[str, Any], model_type: str) -> Attention:
    heads = config_keys.required(text, head_variants.HEADS)
    kv_heads = _kv_heads(text, model_type, heads)
    head_dim = _head_dim(text, model_type, heads)
    if kv_heads > heads or heads % kv_heads:
        config_keys.invalid(
            config_keys.present(text, _KV_HEADS) or "num_key_value_heads",
            f"({kv_heads}) must divide num_attention_heads ({heads})",
        )
    return Attention(
        heads,
        kv_heads,
        head_dim,
        head_dim,
        has_bias=config_keys.flag(text, "attention_bias", model_type.startswith("qwen2")),
        has_sinks=model_type in _WITH_SINKS or config_keys.flag(text, "attention_sinks"),
        is_gated=config_keys.flag(text, "attn_output_gate", model_type in _GATED),
    )


def _kv_heads(text: Mapping[str, Any], model_type: str, heads: int) -> int:
    if config_keys.flag(text, "multi_query") and not config_keys.flag(
        text, "new_decoder_architecture"
    ):
        return 1
    return config_keys.integer(text, _KV_HEADS) or _LIBRARY_KV_HEADS.get(model_type, heads)


def _head_dim(text: Mapping[str, Any], model_type: str, heads: int) -> int:
    spelled_out = ("attention_head_dim",) if model_type in _SPELLS_OUT_HEAD_DIM else ()
    explicit = config_keys.integer(text, (*_HEAD_DIM, *spelled_out), at_least=0)
    if explicit:
        return explicit
    if model_type in _LIBRARY_HEAD_DIM:
        return _LIBRARY_HEAD_DIM[model_type]
    head_dim = config_keys.required(text, head_variants.HIDDEN) // heads
    if head_dim == 0:
        config_keys.invalid("num_attention_heads", "is larger than hidden_size")
    return head_dim
