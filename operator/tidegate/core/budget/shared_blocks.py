"""Zamba2: blocks of attention and feed-forward that layers take turns with, weights and all.

The layers that use a block have a cache of their own each, and thin adapters beside the block.
"""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys
from tidegate.core.budget.mixers import Attention

MODEL_TYPES = ("zamba2",)
KEYS = config_keys.names(
    """attention_hidden_size attention_head_dim use_shared_attention_adapter num_mem_blocks
    hybrid_layer_ids use_shared_block_size use_mem_rope mamba_headdim mamba_ngroups n_mamba_heads
    use_long_context"""
)
_USES_A_BLOCK = "hybrid"


def attention(text: Mapping[str, Any]) -> Attention:
    """Return the attention of a layer that uses a block; its heads share no keys.

    Raises:
        Refused: a size is missing or makes no sense.
    """
    heads = config_keys.required(text, ("num_attention_heads",))
    head_dim = config_keys.integer(text, ("attention_head_dim",)) or _width(text) // heads
    if heads * head_dim != _width(text):
        config_keys.invalid("attention_head_dim", "times num_attention_heads must be the width")
    return Attention(heads, heads, head_dim, head_dim, has_own_weights=False)


def elements(text: Mapping[str, Any], model_type: str) -> int:
    """Return the weights of all blocks and of the layers' adapters; 0 for other models."""
    if model_type not in MODEL_TYPES:
        return 0
    hidden = config_keys.required(text, ("hidden_size",))
    inner = config_keys.integer(text, ("intermediate_size",)) or 4 * hidden
    rank = config_keys.integer(text, ("adapter_rank",)) or 0
    width, users = _width(text), _users(text)
    block = 3 * width * width + width * hidden + 3 * hidden * inner
    adapters = rank * (hidden + 2 * inner)
    if config_keys.flag(text, "use_shared_attention_adapter"):
        adapters += 3 * 2 * rank * width
    blocks = config_keys.integer(text, ("num_mem_blocks",)) or 1
    return blocks * block + users * (adapters + hidden * hidden)


def _width(text: Mapping[str, Any]) -> int:
    """Return the width of attention: twice the hidden state, as it reads the input beside it."""
    return config_keys.integer(text, ("attention_hidden_size",)) or (
        2 * config_keys.required(text, ("hidden_size",))
    )


def _users(text: Mapping[str, Any]) -> int:
    listed = text.get("layers_block_type")
    return sum(one == _USES_A_BLOCK for one in listed) if isinstance(listed, list) else 0
