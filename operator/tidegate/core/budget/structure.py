"""What tokens are mixed with in each layer of a model: the question that decides its KV cache.

A config.json is open-ended, so the rule is turned around: each key whose name speaks of
attention, windows, recurrent state and the like must be one that is understood for this model,
known not to change the KV cache, or off. Anything else is refused by name, never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import (
    attention_config,
    config_keys,
    latent_config,
    layer_kinds,
    recurrent_config,
)
from tidegate.core.budget.layer_kinds import Kind
from tidegate.core.budget.mixers import Mixer

# Words of a key (split at underscores) that speak of the KV cache's structure.
_SHAPING = config_keys.names(
    """attn attention window sliding swa mamba ssm conv linear kv chunk pattern hybrid recurrent
    lora indexer compress sparse sink sinks latent mla nope global state cla shared kda gdn"""
)
_SHAPING_KEYS = config_keys.names(
    """layer_types layers_block_type block_types block_configs v_head_dim head_dim_v expand
    index_topk index_head_dim index_n_heads index_topk_freq index_topk_pattern rwkv_version
    o_groups n_groups compress_ratios per_layer_config attention_other_setting"""
)
# Shaping by name only: these leave the number and size of cached keys and values as they are.
_HARMLESS = config_keys.names(
    """num_attention_heads num_key_value_heads num_kv_heads n_head_kv num_attention_groups
    kv_channels multi_query_attention
    attention_bias attention_out_bias attention_dropout attn_pdrop attn_dropout qkv_bias
    attention_probs_dropout_prob attention_multiplier attention_in_multiplier use_attention_bias
    attention_out_multiplier attn_logit_softcapping query_pre_attn_scalar attn_implementation
    _attn_implementation _attn_implementation_internal _attn_implementation_autoset
    attention_softmax_in_fp32 scale_attention_softmax_in_fp32 apply_query_key_layer_scaling
    add_cross_attention parallel_attn
    cross_attention_hidden_size scale_attn_weights scale_attn_by_inverse_layer_idx attn_scale
    attn_temperature_tuning chunk_size_feed_forward use_logn_attn use_dynamic_ntk use_flash_attn
    linear_bias no_rope_layers no_rope_layer_interval output_attentions output_hidden_states
    attn_output_gate attention_output_gate gate_attn_output attention_value_scale
    attention_projection_layout use_bidirectional_attention attention_k_eq_v rope_local_base_freq
    use_attention_sinks swa_rope_theta activation_sparsity_pattern
    cla_share_factor moe_latent_size use_qk_norm sliding_window_attention_dropout
    n_shared_experts num_shared_experts num_shared_expert moe_num_shared_experts decoder_sparse_step
    shared_expert_intermediate_size shared_intermediate_size moe_shared_expert_overlap
    moe_shared_expert_intermediate_size share_expert_dim"""
)
# Model types whose layers the rules do not cover, whatever an abridged config.json says.
_OTHER_STRUCTURES = (
    (("rwkv", "recurrent_gemma", "plamo2", "bailing"), "recurrent layers"),
    (("step3_", "step3v"), "attention whose queries share a projection"),
    (("longcat_flash_",), "embeddings of several tokens"),
    (("deepseek_v41", "deepseek_ref", "dots3", "hy_v4"), "latent attention of a new kind"),
    (("glm5_next", "qwen4", "inkling", "laguna", "rnj1"), "layers of a new kind"),
    (("deci",), "layers that differ one by one"),
)


# Types that the engine ran once: it refuses them since the version that is named here.
_NO_LONGER_RUN = {
    "bamba": "0.23",
    "minimax_text_01": "0.23",
    "minimax_m1": "0.23",
    "minimax": "0.23",
    "plamo2": "0.26",
    "persimmon": "0.25",
    "arctic": "0.28",
    "chameleon": "0.28",
    "mpt": "0.28",
}


@dataclass(frozen=True)
class Structure:
    """The mixers of each layer, and of each layer for multi-token prediction."""

    layers: tuple[tuple[Mixer, ...], ...]
    draft: tuple[tuple[Mixer, ...], ...]


def read(text: Mapping[str, Any], model_type: str, layers: int, draft_layers: int) -> Structure:
    """Return what each layer mixes tokens with.

    Raises:
        Refused: MODEL_NOT_SIZED names the keys of a structure that is not covered;
            MODEL_CONFIG_INVALID a key that makes no sense.
    """
    _refuse_model_type(text, model_type)
    if latent_config.is_compressed(text, model_type):
        _require_understood(text, latent_config.COMPRESSED_KEYS)
        return _uniform(latent_config.compressed(text, layers), draft_layers)
    if latent_config.is_latent(text, model_type):
        _require_understood(text, latent_config.KEYS)
        *own, of_draft = latent_config.mixers(text, model_type, layers)
        return Structure(tuple(own), (of_draft,) * draft_layers)
    kinds = layer_kinds.read(text, model_type, layers)
    understood = layer_kinds.keys_of(model_type) | attention_config.keys_of(model_type)
    if {Kind.RECURRENT, Kind.BOTH}.intersection(kinds):
        understood |= recurrent_config.KEYS
    _require_understood(text, understood)
    drafted = layer_kinds.of_draft(text, model_type, draft_layers) if draft_layers else ()
    return _mixed(text, model_type, kinds, drafted)


def _mixed(
    text: Mapping[str, Any], model_type: str, kinds: tuple[Kind, ...], drafted: tuple[Kind, ...]
) -> Structure:
    recurrent: tuple[Mixer, ...] = ()
    if {Kind.RECURRENT, Kind.BOTH}.intersection(kinds):
        recurrent = (recurrent_config.read(text, model_type),)
    attentions = attention_config.read(text, model_type, kinds)

    def mixers(kind: Kind, index: int) -> tuple[Mixer, ...]:
        attention = attentions(kind, index)
        found: tuple[Mixer, ...] = () if attention is None else (attention,)
        return found + (recurrent if kind in (Kind.RECURRENT, Kind.BOTH) else ())

    return Structure(
        tuple(mixers(kind, index) for index, kind in enumerate(kinds)),
        tuple(mixers(kind, len(kinds) + index) for index, kind in enumerate(drafted)),
    )


def _uniform(attentions: list[Any], draft_layers: int) -> Structure:
    *own, of_draft = [(attention,) for attention in attentions]
    return Structure(tuple(own), (of_draft,) * draft_layers)


def _refuse_model_type(config: Mapping[str, Any], model_type: str) -> None:
    since = _NO_LONGER_RUN.get(model_type)
    if since is not None:
        config_keys.not_sized(
            ["model_type"], f"vLLM runs no {model_type} since {since}; use another model"
        )
    for prefixes, structure in _OTHER_STRUCTURES:
        if model_type.startswith(prefixes):
            keys = ["model_type", *(["layer_types"] if config.get("layer_types") else [])]
            config_keys.not_sized(keys, f"{model_type} has {structure}")
    if config_keys.flag(config, "is_encoder_decoder"):
        config_keys.not_sized(["is_encoder_decoder"], "it has an encoder and cross-attention")
    if config.get("use_bidirectional_attention") is True:
        config_keys.not_sized(["use_bidirectional_attention"], "it is no causal model")


def _require_understood(config: Mapping[str, Any], understood: frozenset[str]) -> None:
    unknown = sorted(
        key
        for key, value in config.items()
        if key not in understood and _shapes(key) and _is_on(key, value, config)
    )
    if unknown:
        config_keys.not_sized(unknown, "keys that shape the KV cache are not understood")


def _shapes(key: str) -> bool:
    if key in _HARMLESS:
        return False
    return key in _SHAPING_KEYS or not _SHAPING.isdisjoint(key.lower().split("_"))


def _is_on(key: str, value: Any, config: Mapping[str, Any]) -> bool:
    if not value:
        return False
    if key == "attn_type_list":  # 1 is plain attention
        return not isinstance(value, list) or any(one != 1 for one in value)
    if key in ("v_head_dim", "head_dim_v"):
        return bool(value != config.get("head_dim"))
    return True
