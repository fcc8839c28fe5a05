"""Heads that differ by the kind of layer, or pass through ranks, by config.json."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.budget import config_keys
from tidegate.core.budget.layer_kinds import Kind
from tidegate.core.budget.mixers import Attention, LowRank

HEADS = ("num_attention_heads", "n_head", "n_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model")
# Heads of the layers of one kind, in an object of config.json that names the kind.
_OTHER_HEADS = "attention_other_setting"
_HAS_OTHER_HEADS = ("step3p5",)
_HAS_LOW_RANK = ("minicpm3",)
_HAS_GLOBAL_HEADS = ("gemma4_text",)
_HAS_WINDOW_HEADS = ("mimo_v2", "mimo_v2_flash")
_WINDOW_HEAD_KEYS = (
    "swa_num_attention_heads",
    "swa_num_key_value_heads",
    "swa_head_dim",
    "swa_v_head_dim",
)


def keys_of(model_type: str) -> frozenset[str]:
    """Return the keys about such heads that are understood for a model type."""
    keys: set[str] = set()
    if model_type in _HAS_GLOBAL_HEADS:
        keys |= {"global_head_dim", "num_global_key_value_heads"}
    if model_type in _HAS_WINDOW_HEADS:
        keys |= {"v_head_dim", "attention_chunk_size", *_WINDOW_HEAD_KEYS}
        keys |= {"add_swa_attention_sink_bias", "add_full_attention_sink_bias"}
    if model_type in _HAS_OTHER_HEADS:
        keys |= {_OTHER_HEADS, "use_head_wise_attn_gate", "swiglu_limits_shared"}
    if model_type in _HAS_LOW_RANK:
        keys |= config_keys.names(
            "q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim"
        )
    return frozenset(keys)


def is_low_rank(model_type: str) -> bool:
    """Tell whether keys and values are cached in full, and pass through ranks before."""
    return model_type in _HAS_LOW_RANK


def of_kind(
    text: Mapping[str, Any], model_type: str, attention: Attention, kind: Kind
) -> Attention:
    """Return the attention of the layers of a kind, where the model type has others for it.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    if model_type in _HAS_OTHER_HEADS:
        attention = _with_other_heads(text, attention, kind)
    if model_type in _HAS_GLOBAL_HEADS and kind is Kind.FULL:
        attention = _with_global_heads(text, attention)
    if model_type in _HAS_WINDOW_HEADS:
        attention = _with_window_heads(text, attention, kind)
    return attention


def low_rank(text: Mapping[str, Any]) -> Attention:
    """Latent projections whose keys and values are cached in full, for each head.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    heads = config_keys.required(text, HEADS)
    rope_dim = config_keys.required(text, ("qk_rope_head_dim",))
    head_dim = config_keys.required(text, ("qk_nope_head_dim",)) + rope_dim
    values = config_keys.integer(text, ("v_head_dim",)) or (
        config_keys.required(text, HIDDEN) // heads
    )
    ranks = LowRank(
        query_rank=config_keys.required(text, ("q_lora_rank",)),
        latent_rank=config_keys.required(text, ("kv_lora_rank",)),
        rope_dim=rope_dim,
        value_dim=values,
    )
    return Attention(heads, heads, head_dim, head_dim, low_rank=ranks)


def _with_global_heads(text: Mapping[str, Any], attention: Attention) -> Attention:
    """Layers over all tokens have larger heads, and fewer of them where keys serve as values."""
    head_dim = config_keys.integer(text, ("global_head_dim",)) or 512
    kv_heads = None
    if config_keys.flag(text, "attention_k_eq_v"):
        kv_heads = config_keys.integer(text, ("num_global_key_value_heads",))
    return replace(
        attention,
        head_dim=head_dim,
        value_head_dim=head_dim,
        kv_heads=kv_heads or attention.kv_heads,
    )


def _with_window_heads(text: Mapping[str, Any], attention: Attention, kind: Kind) -> Attention:
    """Layers with a window have heads of their own; values are shorter than keys in all."""
    if kind is not Kind.SLIDING:
        values = config_keys.integer(text, ("v_head_dim",)) or attention.head_dim
        sinks = config_keys.flag(text, "add_full_attention_sink_bias")
        return replace(attention, value_head_dim=values, has_sinks=sinks)
    heads, kv_heads, head_dim = (
        config_keys.required(text, (key,)) for key in _WINDOW_HEAD_KEYS[:3]
    )
    return replace(
        attention,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=config_keys.integer(text, ("swa_v_head_dim",)) or head_dim,
        has_sinks=config_keys.flag(text, "add_swa_attention_sink_bias"),
    )


def _with_other_heads(text: Mapping[str, Any], attention: Attention, kind: Kind) -> Attention:
    """Layers of the kind that config.json names have heads of their own."""
    other = config_keys.inside(text, _OTHER_HEADS)
    if other is None:
        return attention
    named = other.get(f"{_OTHER_HEADS}.attention_type")
    if named != "sliding_attention":
        config_keys.not_sized([_OTHER_HEADS], f"it is of {named!r:.40} layers")
    if kind is not Kind.SLIDING:
        return attention
    heads, kv_heads = (
        config_keys.required(other, (f"{_OTHER_HEADS}.{key}",))
        for key in ("num_attention_heads", "num_attention_groups")
    )
    if heads % kv_heads:
        config_keys.invalid(_OTHER_HEADS, f"has {kv_heads} groups for {heads} heads")
    head_dim = config_keys.integer(other, (f"{_OTHER_HEADS}.head_dim",)) or attention.head_dim
    return replace(
        attention, heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_head_dim=head_dim
    )
