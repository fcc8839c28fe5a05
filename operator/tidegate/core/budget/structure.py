"""Is every layer of a model plain full attention: the question that decides if it can be sized.

A config.json is open-ended, so the rule is turned around: each key whose name speaks of
attention, windows, recurrent state and the like must be one that is known not to change the KV
cache, or be off. Anything else is refused by name, never guessed.
"""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Words of a key (split at underscores) that speak of the KV cache's structure.
_SHAPING = words(
    """attn attention window sliding swa mamba ssm conv linear kv chunk pattern hybrid recurrent
    lora indexer compress sparse sink sinks latent mla nope global state cla shared"""
)
_SHAPING_KEYS = words(
    """layer_types layers_block_type block_types block_configs v_head_dim head_dim_v expand
    index_topk index_head_dim index_n_heads rwkv_version o_groups n_groups"""
)
# Shaping by name only: these leave the number and size of cached keys and values as they are.
_READ_ELSEWHERE = words(
    """num_attention_heads num_key_value_heads num_kv_heads n_head_kv num_attention_groups
    kv_channels sliding_window use_sliding_window max_window_layers multi_query_attention"""
)
_ARITHMETIC_OF_ATTENTION = words(
    """attention_bias attention_out_bias attention_dropout attn_pdrop attn_dropout qkv_bias
    attention_probs_dropout_prob attention_multiplier attention_in_multiplier use_attention_bias
    attention_out_multiplier attn_logit_softcapping query_pre_attn_scalar attn_implementation
    _attn_implementation _attn_implementation_internal _attn_implementation_autoset
    attention_softmax_in_fp32 apply_query_key_layer_scaling add_cross_attention parallel_attn
    cross_attention_hidden_size scale_attn_weights scale_attn_by_inverse_layer_idx attn_scale
    attn_temperature_tuning chunk_size_feed_forward use_logn_attn use_dynamic_ntk use_flash_attn
    linear_bias no_rope_layers no_rope_layer_interval output_attentions output_hidden_states"""
)
_EXPERTS = words(
    """n_shared_experts num_shared_experts moe_num_shared_experts decoder_sparse_step
    shared_expert_intermediate_size shared_intermediate_size moe_shared_expert_overlap
    moe_shared_expert_intermediate_size"""
)
_HARMLESS = _READ_ELSEWHERE | _ARITHMETIC_OF_ATTENTION | _EXPERTS
# Model types whose layers are not all full attention, whatever an abridged config.json says.
_OTHER_STRUCTURES = (
    (("gemma2", "gemma3", "gemma4", "gpt_oss", "cohere2", "olmo3", "exaone4"), "sliding windows"),
    (("ministral", "afmoe", "mimo_v2", "step3"), "sliding windows"),
    (("llama4",), "chunked local attention"),
    (("deepseek", "kimi", "glm_moe_dsa", "glm5", "glm4_moe_lite", "longcat"), "latent attention"),
    (("minimax_m3",), "sparse attention"),
    (("nemotron-nas", "nemotron_nas", "deci"), "layers with KV heads of their own"),
    (("nemotron_h", "qwen3_next", "qwen3_5", "falcon_h1", "falcon_mamba"), "recurrent layers"),
    (
        ("granitemoehybrid", "jamba", "bamba", "zamba", "mamba", "lfm2", "plamo2"),
        "recurrent layers",
    ),
    (("minimax_text", "minimax_m1", "rwkv", "recurrent_gemma"), "recurrent layers"),
)
# Where config.json is silent, the engine's model library fills these in (transformers 5).
_WINDOWED_BY_DEFAULT = {"mistral": 4096}
_WINDOW_OFF_BY_DEFAULT = ("qwen2", "qwen3", "smollm3", "mimo")


def require_full_attention(config: Mapping[str, Any], model_type: str) -> None:
    """Check that every layer attends to all tokens with keys and values of its own.

    Raises:
        Refused: MODEL_NOT_SIZED names the keys that say otherwise or are not understood.
    """
    _refuse_model_type(config, model_type)
    _refuse_layer_types(config)
    _refuse_window(config, model_type)
    unknown = sorted(
        key for key, value in config.items() if _shapes(key) and _is_on(key, value, config)
    )
    if unknown:
        config_keys.not_sized(unknown, "keys that shape the KV cache are not understood")


def _refuse_model_type(config: Mapping[str, Any], model_type: str) -> None:
    for prefixes, structure in _OTHER_STRUCTURES:
        # ministral3 is plain full attention, its elder is not
        if model_type.startswith(prefixes) and model_type != "ministral3":
            keys = ["model_type", *(["layer_types"] if config.get("layer_types") else [])]
            config_keys.not_sized(keys, f"{model_type} has {structure}")
    if config_keys.flag(config, "is_encoder_decoder"):
        config_keys.not_sized(["is_encoder_decoder"], "it has an encoder and cross-attention")


def _refuse_layer_types(config: Mapping[str, Any]) -> None:
    layer_types = config.get("layer_types")
    if layer_types is None:
        return
    if not isinstance(layer_types, list) or not all(isinstance(kind, str) for kind in layer_types):
        config_keys.invalid("layer_types", "must be a list of names")
    others = sorted(set(layer_types) - {"full_attention"})
    if others:
        config_keys.not_sized(["layer_types"], f"it has layers of {', '.join(others)[:200]}")


def _refuse_window(config: Mapping[str, Any], model_type: str) -> None:
    window = config_keys.integer(config, ("sliding_window",), at_least=0)
    if "sliding_window" not in config:
        window = _WINDOWED_BY_DEFAULT.get(model_type)
    # Qwen ships a window together with use_sliding_window: false; the library then drops it.
    is_used = not model_type.startswith(_WINDOW_OFF_BY_DEFAULT)
    if window and config_keys.flag(config, "use_sliding_window", default=is_used):
        config_keys.not_sized(["sliding_window"], f"it attends to a window of {window} tokens")


def _shapes(key: str) -> bool:
    if key in _HARMLESS:
        return False
    return key in _SHAPING_KEYS or not _SHAPING.isdisjoint(key.lower().split("_"))


def _is_on(key: str, value: Any, config: Mapping[str, Any]) -> bool:
    if key == "layer_types" or not value:  # the former is checked by itself
        return False
    if key in ("v_head_dim", "head_dim_v"):
        return bool(value != config.get("head_dim"))
    return True
