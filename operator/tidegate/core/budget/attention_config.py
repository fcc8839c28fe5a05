"""The attention of each layer, by config.json: heads, their sizes, and what may differ by layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.core.budget import config_keys, layer_kinds, shared_blocks
from tidegate.core.budget.layer_kinds import Kind
from tidegate.core.budget.mixers import Attention, Indexer, LowRank

_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
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
# Heads of the layers of one kind, in an object of config.json that names the kind.
_OTHER_HEADS = "attention_other_setting"
_HAS_OTHER_HEADS = ("step3p5",)
_HAS_INDEX = ("minimax_m3", "minimax_m3_text")
_INDEX = "sparse_attention_config"
_INDEX_BLOCK = 128
_HAS_LOW_RANK = ("minicpm3",)
_HAS_GLOBAL_HEADS = ("gemma4_text",)
_HAS_WINDOW_HEADS = ("mimo_v2", "mimo_v2_flash")
_WINDOW_HEAD_KEYS = (
    "swa_num_attention_heads",
    "swa_num_key_value_heads",
    "swa_head_dim",
    "swa_v_head_dim",
)
# Values of single layers by index, as the engine's model library writes them since version 5.
_LAYER_VALUES = "per_layer_config"


def keys_of(model_type: str) -> frozenset[str]:
    """Return the keys about attention that are understood for a model type."""
    keys = {_LAYER_VALUES}
    if model_type in _SHARES_KV:
        keys.add("num_kv_shared_layers")
    if model_type in _HAS_GLOBAL_HEADS:
        keys |= {"global_head_dim", "num_global_key_value_heads"}
    if model_type in _HAS_WINDOW_HEADS:
        keys |= {"v_head_dim", "attention_chunk_size", *_WINDOW_HEAD_KEYS}
        keys |= {"add_swa_attention_sink_bias", "add_full_attention_sink_bias"}
    if model_type in _SPELLS_OUT_HEAD_DIM:
        keys.add("attention_head_dim")
    if model_type in _HAS_OTHER_HEADS:
        keys |= {_OTHER_HEADS, "use_head_wise_attn_gate", "swiglu_limits_shared"}
    if model_type in _HAS_INDEX:
        keys.add(_INDEX)
    if model_type in shared_blocks.MODEL_TYPES:
        keys |= shared_blocks.KEYS
    if model_type in _HAS_LOW_RANK:
        keys |= {
            "q_lora_rank",
            "kv_lora_rank",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "v_head_dim",
        }
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
    group_sizes = _group_sizes(text)
    own_values = _own_values(text)
    indexed = _indexed(text, len(kinds)) if model_type in _HAS_INDEX else {}

    def attention(kind: Kind, index: int) -> Attention | None:
        found = by_kind.get(kind)
        if found is None:
            return None
        if group_sizes is not None and index < len(group_sizes):
            found = replace(found, kv_heads=found.heads // group_sizes[index])
        if index in indexed:
            found = replace(found, indexer=indexed[index])
        if index in own_values:
            found = _with_own_values(found, own_values[index])
        return replace(found, shares_kv=True) if first_shared <= index < len(kinds) else found

    return attention


_WITH_ATTENTION = (Kind.FULL, Kind.SLIDING, Kind.CHUNKED, Kind.BOTH)


def _of_kind(text: Mapping[str, Any], model_type: str, kind: Kind) -> Attention:
    if model_type in shared_blocks.MODEL_TYPES:
        return shared_blocks.attention(text)
    if model_type in _HAS_LOW_RANK:
        return _low_rank(text)
    attention = _plain(text, model_type)
    if model_type in _HAS_OTHER_HEADS:
        attention = _with_other_heads(text, attention, kind)
    if model_type in _HAS_GLOBAL_HEADS and kind is Kind.FULL:
        attention = _with_global_heads(text, attention)
    if model_type in _HAS_WINDOW_HEADS:
        attention = _with_window_heads(text, attention, kind)
    if kind is Kind.SLIDING:
        return replace(attention, window=layer_kinds.window(text, model_type))
    if kind is Kind.CHUNKED:
        chunk = config_keys.required(text, ("attention_chunk_size",))
        return replace(attention, chunk=chunk)
    return attention


def _plain(text: Mapping[str, Any], model_type: str) -> Attention:
    heads = config_keys.required(text, _HEADS)
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
    head_dim = config_keys.required(text, _HIDDEN) // heads
    if head_dim == 0:
        config_keys.invalid("num_attention_heads", "is larger than hidden_size")
    return head_dim


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


def _low_rank(text: Mapping[str, Any]) -> Attention:
    """Latent projections whose keys and values are cached in full, for each head."""
    heads = config_keys.required(text, _HEADS)
    rope_dim = config_keys.required(text, ("qk_rope_head_dim",))
    head_dim = config_keys.required(text, ("qk_nope_head_dim",)) + rope_dim
    values = config_keys.integer(text, ("v_head_dim",)) or (
        config_keys.required(text, _HIDDEN) // heads
    )
    low_rank = LowRank(
        query_rank=config_keys.required(text, ("q_lora_rank",)),
        latent_rank=config_keys.required(text, ("kv_lora_rank",)),
        rope_dim=rope_dim,
        value_dim=values,
    )
    return Attention(heads, heads, head_dim, head_dim, low_rank=low_rank)


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


def _indexed(text: Mapping[str, Any], layers: int) -> dict[int, Indexer]:
    """Return the indexers of sparse layers, by the index of the layer."""
    sparse = config_keys.inside(text, _INDEX)
    if sparse is None:
        config_keys.not_sized([_INDEX], "it does not tell which layers are sparse")
    listed = sparse.get(f"{_INDEX}.sparse_attention_freq")
    if not isinstance(listed, list) or len(listed) != layers:
        config_keys.invalid(_INDEX, "needs sparse_attention_freq with an entry for each layer")
    block = config_keys.required(sparse, (f"{_INDEX}.sparse_block_size",))
    if block != _INDEX_BLOCK:
        config_keys.not_sized([_INDEX], f"it reads blocks of {block} tokens")
    indexer = Indexer(
        config_keys.required(sparse, (f"{_INDEX}.sparse_num_index_heads",)),
        config_keys.required(sparse, (f"{_INDEX}.sparse_index_dim",)),
    )
    return {index: indexer for index, is_sparse in enumerate(listed) if is_sparse}


def _group_sizes(text: Mapping[str, Any]) -> list[int] | None:
    """Return the heads that share a KV head in each layer, where layers were searched for."""
    blocks = text.get("block_configs")
    if blocks is None:
        return None
    sizes = []
    for block in blocks:
        attention = config_keys.mapping(block, "attention") or {}
        sizes.append(config_keys.integer(attention, ("n_heads_in_group",)) or 1)
    return sizes


def _own_values(text: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the values of single layers, by the index of the layer."""
    listed = config_keys.mapping(text, _LAYER_VALUES) or {}
    found = {}
    for index, values in listed.items():
        if not (str(index).isdecimal() and len(str(index)) < 6 and isinstance(values, Mapping)):
            config_keys.invalid(_LAYER_VALUES, "must map indices of layers to objects")
        others = sorted(set(values) - {"head_dim", "num_key_value_heads"})
        if others:
            keys = ", ".join(map(str, others))
            config_keys.not_sized([_LAYER_VALUES], f"layers differ by {keys}"[:200])
        found[int(index)] = values
    return found


def _with_own_values(attention: Attention, values: Mapping[str, Any]) -> Attention:
    head_dim = config_keys.integer(values, ("head_dim",))
    kv_heads = config_keys.integer(values, ("num_key_value_heads",)) or attention.kv_heads
    if attention.heads % kv_heads:
        config_keys.invalid(_LAYER_VALUES, f"has {kv_heads} KV heads for {attention.heads} heads")
    return replace(
        attention,
        kv_heads=kv_heads,
        head_dim=head_dim or attention.head_dim,
        value_head_dim=head_dim or attention.value_head_dim,
    )
