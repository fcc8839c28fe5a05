"""The recurrent mixer of a model, by the keys that its config.json has.

Every family spells the same sizes in its own way; the keys tell which kind it is.
"""

import math
from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys
from tidegate.core.budget.recurrent import (
    DeltaAttention,
    GatedDelta,
    Mamba1,
    Mamba2,
    Recurrent,
    ShortConvolution,
)

_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
_HEAD_DIM = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
_GROUPS = ("n_groups", "mamba_n_groups", "mamba_ngroups")
_STATE_SIZE = ("ssm_state_size", "mamba_d_state", "state_size")
_KERNEL = ("conv_kernel", "mamba_d_conv")
_EXPAND = ("mamba_expand", "expand")
_STEP_RANK = ("mamba_dt_rank", "time_step_rank")
_STATE_DTYPE = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
KEYS = frozenset(
    (*_HEADS, *_HEAD_DIM, *_GROUPS, *_STATE_SIZE, *_KERNEL, *_EXPAND, *_STATE_DTYPE)
) | config_keys.names(
    """mamba_d_ssm mamba_chunk_size mamba_conv_bias mamba_proj_bias mamba_rms_norm mamba_dt_rank
    mamba_inner_layernorms
    mamba_norm_before_gate mamba_use_mlp mamba_hidden_act use_mamba_kernels use_conv_bias
    ssm_multipliers ssm_in_multiplier ssm_out_multiplier residual_in_fp32 use_mambapy
    linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim
    linear_conv_kernel_dim linear_allow_neg_eigval linear_use_gate linear_a_log_min
    linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor
    conv_L_cache conv_dim conv_dim_out conv_bias conv_use_xavier_init chunk_size"""
)
DELTA = "linear_attn_config"
_MAMBA1 = ("jamba", "mamba", "falcon_mamba")
# These take float32 for the recurrent part where nothing else is said.
_FLOAT32_STATE = ("nemotron_h", "kimi_linear")


def read(text: Mapping[str, Any], model_type: str) -> Recurrent:
    """Return the recurrent mixer.

    Raises:
        Refused: config.json has the keys of none that is known, or a size makes no sense.
    """
    if config_keys.present(text, ("linear_num_value_heads",)) or model_type == "olmo_hybrid":
        return _gated_delta(text, model_type)
    if config_keys.present(text, ("conv_L_cache",)):
        return _short_convolution(text, model_type)
    if model_type in _MAMBA1:
        return _mamba1(text, model_type)
    if config_keys.present(text, (*_HEADS, "num_heads")) and config_keys.present(text, _STATE_SIZE):
        return _mamba2(text, model_type)
    return config_keys.not_sized(
        ["model_type"], f"{model_type or 'it'} has recurrent layers of an unknown kind"
    )


def state_dtype(text: Mapping[str, Any], model_type: str) -> str | None:
    """Return the dtype of the recurrent part that the engine takes for `auto`, if the model tells.

    Raises:
        Refused: the value is no string.
    """
    for key in _STATE_DTYPE:
        named = config_keys.text(text, key)
        if named is not None:
            return named
    return "float32" if model_type in _FLOAT32_STATE else None


def _mamba1(text: Mapping[str, Any], model_type: str) -> Mamba1:
    hidden = config_keys.required(text, ("hidden_size",))
    # Where nothing but recurrent layers use it, intermediate_size is theirs, and goes first.
    inner = None if model_type == "jamba" else config_keys.integer(text, ("intermediate_size",))
    inner = inner or (config_keys.integer(text, _EXPAND) or 2) * hidden
    keys = tuple(key for key in _STEP_RANK if text.get(key) != "auto")
    return Mamba1(
        inner=inner,
        state_size=config_keys.integer(text, _STATE_SIZE) or 16,
        kernel=config_keys.integer(text, _KERNEL) or 4,
        step_rank=config_keys.integer(text, keys) or math.ceil(hidden / 16),
    )


def _mamba2(text: Mapping[str, Any], model_type: str) -> Mamba2:
    heads = config_keys.required(text, (*_HEADS, "num_heads"))
    if model_type == "nemotron_h":
        head_dim = config_keys.required(text, _HEAD_DIM)
        inner = heads * head_dim
    else:
        inner = config_keys.integer(text, ("mamba_d_ssm",)) or (
            (config_keys.integer(text, _EXPAND) or 2) * config_keys.required(text, ("hidden_size",))
        )
        named = all(text.get(key) in (None, "auto") for key in ("mamba_d_head", "mamba_headdim"))
        head_dim = inner // heads if named else config_keys.required(text, _HEAD_DIM)
    return Mamba2(
        heads=heads,
        head_dim=head_dim,
        groups=config_keys.integer(text, _GROUPS) or 1,
        state_size=config_keys.required(text, _STATE_SIZE),
        kernel=config_keys.integer(text, _KERNEL) or 4,
        inner=inner,
    )


def _gated_delta(text: Mapping[str, Any], model_type: str) -> GatedDelta:
    heads = config_keys.integer(text, ("num_attention_heads",))
    key_heads = config_keys.integer(text, ("linear_num_key_heads",)) or heads or 16
    value_heads = config_keys.integer(text, ("linear_num_value_heads",)) or heads or 32
    key_dim = config_keys.integer(text, ("linear_key_head_dim",))
    value_dim = config_keys.integer(text, ("linear_value_head_dim",))
    if model_type == "olmo_hybrid":
        hidden = config_keys.required(text, ("hidden_size",))
        key_dim = key_dim or int(0.75 * hidden / key_heads)
        value_dim = value_dim or 2 * key_dim
    return GatedDelta(
        key_heads=key_heads,
        key_dim=key_dim or 128,
        value_heads=value_heads,
        value_dim=value_dim or 128,
        kernel=config_keys.integer(text, ("linear_conv_kernel_dim",)) or 4,
        exports_states=model_type != "olmo_hybrid",
    )


def delta(config: Mapping[str, Any]) -> DeltaAttention:
    """Return Kimi's delta attention, by what stands inside of `linear_attn_config`.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    has_whole_gate = config_keys.flag(config, f"{DELTA}.use_full_rank_gate")
    head_dim = config_keys.required(config, (f"{DELTA}.head_dim",))
    is_bounded = config.get(f"{DELTA}.gate_lower_bound") is not None
    return DeltaAttention(
        heads=config_keys.required(config, (f"{DELTA}.num_heads",)),
        head_dim=head_dim,
        kernel=config_keys.required(config, (f"{DELTA}.short_conv_kernel_size",)),
        has_whole_gate=has_whole_gate,
        hands_out_states=has_whole_gate and is_bounded and head_dim == 128,
    )


def _short_convolution(text: Mapping[str, Any], model_type: str) -> ShortConvolution:
    hidden = config_keys.required(text, ("hidden_size",))
    width = config_keys.integer(text, ("conv_dim",)) if model_type == "lfm2" else None
    return ShortConvolution(width or hidden, config_keys.required(text, ("conv_L_cache",)))
