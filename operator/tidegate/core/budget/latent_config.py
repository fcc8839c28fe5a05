"""Latent attention of a model, by config.json: DeepSeek's MLA, its sparse form, and V4's.

Kimi-Linear has it in some layers, beside delta attention in the others.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.budget import config_keys, recurrent_config
from tidegate.core.budget.mixers import CompressedAttention, Indexer, LatentAttention, Mixer

# The engine runs latent attention for these model types when config.json has a latent rank.
_MODEL_TYPES = (
    "axk1",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "kimi_k2",
    "glm_moe_dsa",
    "glm4_moe_lite",
    "pangu_ultra_moe",
    "longcat_flash",
    "kimi_linear",
)
_TWICE_IN_A_LAYER = ("longcat_flash",)
_COMPRESSED = ("deepseek_v4",)
_RATIOS = (4, 128)  # of tokens to a state; the former has an indexer
KEYS = config_keys.names(
    """kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim qk_head_dim v_head_dim head_dim
    num_key_value_heads index_topk index_head_dim index_n_heads index_topk_freq index_topk_pattern
    index_skip_topk_offset index_share_for_mtp_iteration indexer_types indexer_rope_interleave
    layer_types mla_scale_q_lora mla_scale_kv_lora attention_method
    linear_attn_config mla_use_nope mla_use_output_gate attn_res_block_size
    activation_situ_linear_beta latent_moe_use_norm"""
)
COMPRESSED_KEYS = KEYS | config_keys.names(
    "compress_ratios compress_rope_theta sliding_window o_groups o_lora_rank"
)


def is_compressed(text: Mapping[str, Any], model_type: str) -> bool:
    """Tell whether layers keep a window of tokens and compressed states of older ones."""
    return model_type in _COMPRESSED and text.get("compress_ratios") is not None


def is_latent(text: Mapping[str, Any], model_type: str) -> bool:
    """Tell whether all layers have latent attention."""
    return model_type in _MODEL_TYPES and text.get("kv_lora_rank") is not None


def mixers(text: Mapping[str, Any], model_type: str, layers: int) -> list[tuple[Mixer, ...]]:
    """Return the mixers of each layer, and of one more for a draft.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    attentions = latent(text, layers)
    *own, of_draft = attentions
    if model_type in _TWICE_IN_A_LAYER:
        return [(attention, attention) for attention in own] + [(of_draft,)]
    delta = config_keys.inside(text, recurrent_config.DELTA)
    if delta is None:
        return [(attention,) for attention in attentions]
    recurrent = recurrent_config.delta(delta)
    listed = _delta_layers(delta, layers)
    found: list[tuple[Mixer, ...]] = [
        (recurrent if index in listed else attention,) for index, attention in enumerate(own)
    ]
    return [*found, (of_draft,)]


def _delta_layers(delta: Mapping[str, Any], layers: int) -> frozenset[int]:
    """Return the indices of layers with delta attention; config.json counts them from 1."""
    listed = delta.get(f"{recurrent_config.DELTA}.kda_layers")
    if not isinstance(listed, list) or not all(type(one) is int for one in listed):
        config_keys.invalid(
            recurrent_config.DELTA, "needs kda_layers, a list of layers counted from 1"
        )
    if not all(1 <= one <= layers for one in listed):
        config_keys.invalid(
            recurrent_config.DELTA, f"has kda_layers beyond the {layers} layers of the model"
        )
    return frozenset(one - 1 for one in listed)


def latent(text: Mapping[str, Any], layers: int) -> list[LatentAttention]:
    """Return the latent attention of each layer, and of one more for a draft.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    is_sparse = config_keys.integer(text, ("index_topk",)) is not None
    nope_dim = config_keys.integer(text, ("qk_nope_head_dim",)) or 0
    plain = LatentAttention(
        heads=config_keys.required(text, ("num_attention_heads",)),
        latent_rank=config_keys.required(text, ("kv_lora_rank",)),
        rope_dim=config_keys.integer(text, ("qk_rope_head_dim",), at_least=0) or 0,
        nope_dim=nope_dim,
        value_head_dim=config_keys.integer(text, ("v_head_dim",)) or nope_dim,
        query_rank=config_keys.integer(text, ("q_lora_rank",)),
        is_sparse=is_sparse,
        is_gated=config_keys.flag(text, "mla_use_output_gate"),
    )
    if not is_sparse:
        return [plain] * (layers + 1)
    indexed = replace(plain, indexer=_indexer(text))
    return [indexed if _has_indexer(text, index) else plain for index in range(layers)] + [indexed]


def compressed(text: Mapping[str, Any], layers: int) -> list[CompressedAttention]:
    """Return the compressed attention of each layer, and of one more for a draft.

    Raises:
        Refused: a size is missing or makes no sense, or a ratio is not known.
    """
    ratios = text["compress_ratios"]
    if not isinstance(ratios, list) or len(ratios) < layers:
        config_keys.invalid("compress_ratios", "must be a list with an entry for each layer")
    if not all(type(ratio) is int for ratio in ratios):
        config_keys.invalid("compress_ratios", "must hold whole numbers")
    others = sorted({ratio for ratio in ratios if ratio not in (0, 1, *_RATIOS)}, key=str)
    if others:
        config_keys.not_sized(["compress_ratios"], f"it has ratios of {others}"[:200])
    plain = CompressedAttention(
        heads=config_keys.required(text, ("num_attention_heads",)),
        head_dim=config_keys.required(text, ("head_dim",)),
        window=config_keys.required(text, ("sliding_window",)),
        ratio=1,
        query_rank=config_keys.required(text, ("q_lora_rank",)),
        output_rank=config_keys.required(text, ("o_lora_rank",)),
        output_groups=config_keys.required(text, ("o_groups",)),
    )
    kinds = {
        ratio: replace(plain, ratio=ratio, indexer=_indexer(text) if ratio == _RATIOS[0] else None)
        for ratio in {1, *(max(1, ratio) for ratio in ratios[:layers])}
    }
    return [kinds[max(1, ratio)] for ratio in ratios[:layers]] + [kinds[1]]


def _indexer(text: Mapping[str, Any]) -> Indexer:
    return Indexer(
        heads=config_keys.required(text, ("index_n_heads",)),
        head_dim=config_keys.required(text, ("index_head_dim",)),
    )


def _has_indexer(text: Mapping[str, Any], index: int) -> bool:
    """Tell whether the layer picks tokens itself, rather than take an earlier layer's choice."""
    pattern = text.get("index_topk_pattern")
    if pattern is not None:
        if not isinstance(pattern, str):
            config_keys.invalid("index_topk_pattern", "must be a string of letters")
        return pattern[index : index + 1] != "S"
    period = config_keys.integer(text, ("index_topk_freq",)) or 1
    offset = config_keys.integer(text, ("index_skip_topk_offset",), at_least=0)
    since = max(index - (2 if offset is None else offset) + 1, 0)
    return since % period == 0
