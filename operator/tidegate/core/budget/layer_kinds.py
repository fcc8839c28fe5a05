"""Which kind each layer is: what it attends to, or that it is recurrent, by config.json.

A list of types or a pattern counts where config.json has one. Where it has none, the engine's
model library fills in a rule of its own for the model type (transformers 5).
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from tidegate.core.budget import config_keys


class Kind(Enum):
    """What a layer mixes tokens with."""

    FULL = "all tokens so far"
    SLIDING = "a sliding window"
    CHUNKED = "the current chunk"
    RECURRENT = "a recurrent state"
    BOTH = "all tokens so far beside a recurrent state"
    NONE = "nothing: feed-forward only"


_DRAFT_PATTERNS = ("mtp_hybrid_override_pattern", "mtp_layers_block_type")
PATTERN_KEY = "hybrid_override_pattern"  # a letter for each layer
TYPE_LISTS = ("layer_types", "layers_block_type")
_KEYS = frozenset(TYPE_LISTS) | config_keys.names(
    """sliding_window sliding_window_size use_sliding_window max_window_layers
    sliding_window_pattern _sliding_window_pattern no_rope_layers no_rope_layer_interval
    mtp_layer_types"""
)
_KEYS_OF_TYPE = {
    "llama4_text": ("attention_chunk_size",),
    "jamba": ("attn_layer_period", "attn_layer_offset"),
    "lfm2": ("full_attn_idxs",),
    "afmoe": ("global_attn_every_n_layers",),
    "mimo_v2": ("hybrid_layer_pattern", "hybrid_block_size"),
    "mimo_v2_flash": ("hybrid_layer_pattern", "hybrid_block_size"),
    "qwen3_next": ("full_attention_interval",),
    "qwen3_5_text": ("full_attention_interval",),
    "qwen3_5_moe_text": ("full_attention_interval",),
    "nemotron_h": ("hybrid_override_pattern", *_DRAFT_PATTERNS),
    "nemotron-nas": ("block_configs",),
}
_BY_NAME = {
    "full_attention": Kind.FULL,
    "attention": Kind.FULL,
    "sliding_attention": Kind.SLIDING,
    "linear_attention": Kind.RECURRENT,
    "mamba": Kind.RECURRENT,
    "mamba2": Kind.RECURRENT,
    "conv": Kind.RECURRENT,
    "hybrid": Kind.BOTH,
    "moe": Kind.NONE,
    "mlp": Kind.NONE,
}
_BY_LETTER = {"*": Kind.FULL, "M": Kind.RECURRENT, "-": Kind.NONE, "E": Kind.NONE}
_LISTS_DRAFTS = ("step3p5",)  # behind the model's own layers
ALL_RECURRENT = ("mamba", "mamba2", "falcon_mamba")
# Types that read use_sliding_window, and drop their window unless it is true; MiMo's is Qwen2's.
# Other types keep their window, whatever the flag says.
_WINDOW_OFF_BY_DEFAULT = re.compile(r"qwen2|qwen3|smollm3|mimo$")
_LIBRARY_WINDOW = {
    "mistral": 4096,
    "ministral": 4096,
    "gemma2": 4096,
    "gemma3_text": 4096,
    "gemma3n_text": 512,
    "gemma4_text": 512,
    "cohere2": 4096,
    "olmo3": 4096,
    "exaone4": 4096,
    "gpt_oss": 128,
    "cwm": 8192,
    "afmoe": 1024,
}
# Cohere counts the token itself beside its window; the engine adds it.
_WINDOW_IS_EXCLUSIVE = ("cohere2", "cohere2_moe")


def keys_of(model_type: str) -> frozenset[str]:
    """Return the keys that are understood here for a model type."""
    return _KEYS.union(_KEYS_OF_TYPE.get(model_type, ()))


def count(text: Mapping[str, Any]) -> int | None:
    """Return how many layers config.json lists, None if it lists none."""
    key = config_keys.present(text, (*TYPE_LISTS, PATTERN_KEY))
    return len(text[key]) if key is not None and isinstance(text[key], list | str) else None


def read(text: Mapping[str, Any], model_type: str, layers: int) -> tuple[Kind, ...]:
    """Return the kind of each layer.

    Raises:
        Refused: a list has another length than the model, or names a kind that is not known.
    """
    if model_type in _LISTS_DRAFTS and isinstance(text.get("layer_types"), list):
        text = {**text, "layer_types": text["layer_types"][:layers]}
    kinds = _of_lists(text, layers) or _of_rules(text, model_type, layers)
    if kinds is None:
        kinds = [Kind.SLIDING if window(text, model_type) else Kind.FULL] * layers
    if window(text, model_type) is None:
        kinds = [Kind.FULL if kind is Kind.SLIDING else kind for kind in kinds]
    return tuple(kinds)


def window(text: Mapping[str, Any], model_type: str) -> int | None:
    """Return the tokens of the sliding window, None where it is off.

    Raises:
        Refused: the window makes no sense, or is on for some layers that are not told apart.
    """
    tokens = config_keys.integer(text, ("sliding_window", "sliding_window_size"), at_least=0)
    if tokens is None and "sliding_window" not in text:
        tokens = _LIBRARY_WINDOW.get(model_type)
    is_asked = config_keys.flag(text, "use_sliding_window")
    if not tokens or (_WINDOW_OFF_BY_DEFAULT.match(model_type) and not is_asked):
        return None
    return tokens + 1 if model_type in _WINDOW_IS_EXCLUSIVE else tokens


def of_draft(text: Mapping[str, Any], model_type: str, layers: int) -> tuple[Kind, ...]:
    """Return the kinds of the layers for multi-token prediction, `layers` as config.json counts.

    Raises:
        Refused: the draft has recurrent layers, which the engine does not run.
    """
    types = text.get("mtp_layer_types")
    if isinstance(types, list):
        return tuple(_named(types, "mtp_layer_types"))[:layers]
    key = config_keys.present(text, _DRAFT_PATTERNS)
    if key is not None:
        spelled = isinstance(text[key], str)
        kinds = _spelled(text[key], key) if spelled else _named(text[key], key)
        if Kind.RECURRENT in kinds:
            config_keys.not_sized([key], "the draft has recurrent layers")
        return tuple(kind for kind in kinds if kind is not Kind.NONE) * layers
    if model_type.startswith("mimo_v2"):  # the engine runs the first of them alone
        return (Kind.SLIDING,)
    return (Kind.FULL,) * layers


def _of_lists(text: Mapping[str, Any], layers: int) -> list[Kind] | None:
    """Return the kinds that config.json lists by name or spells with letters."""
    key = config_keys.present(text, TYPE_LISTS)
    if key is not None:
        return _exactly(_named(text[key], key), key, layers)
    pattern = config_keys.text(text, PATTERN_KEY)
    if pattern is not None:
        return _exactly(_spelled(pattern, PATTERN_KEY), PATTERN_KEY, layers)
    blocks = text.get("block_configs")
    return None if blocks is None else _exactly(_of_blocks(blocks), "block_configs", layers)


def _named(names: Any, key: str) -> list[Kind]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        config_keys.invalid(key, "must be a list of names")
    others = sorted(set(names) - set(_BY_NAME) - {"chunked_attention"})
    if others:
        config_keys.not_sized([key], f"it has layers of {', '.join(others)[:200]}")
    return [_BY_NAME.get(name, Kind.CHUNKED) for name in names]


def _spelled(pattern: str, key: str) -> list[Kind]:
    others = sorted(set(pattern) - set(_BY_LETTER))
    if others:
        config_keys.not_sized([key], f"it has layers spelled {''.join(others)[:50]}")
    return [_BY_LETTER[letter] for letter in pattern]


def _of_blocks(blocks: Any) -> list[Kind]:
    """Return the kinds of layers that were searched for one by one: some lack attention."""
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        config_keys.invalid("block_configs", "must be a list of objects")
    kinds = []
    for block in blocks:
        attention = config_keys.mapping(block, "attention") or {}
        if any(attention.get(key) for key in ("window_length", "num_sink_tokens", "sparsify")):
            config_keys.not_sized(["block_configs"], "a layer has a window or sink tokens")
        skipped = attention.get("no_op") or attention.get("replace_with_linear")
        kinds.append(Kind.NONE if skipped else Kind.FULL)
    return kinds


def _exactly(kinds: list[Kind], key: str, layers: int) -> list[Kind]:
    if len(kinds) != layers:
        config_keys.invalid(key, f"has {len(kinds)} layers, num_hidden_layers is {layers}")
    return kinds


def _of_rules(text: Mapping[str, Any], model_type: str, layers: int) -> list[Kind] | None:
    """Return the kinds by the library's rule for the model type; None where it has none."""
    if model_type in ALL_RECURRENT:
        return [Kind.RECURRENT] * layers
    rule = _RULES.get(model_type)
    return None if rule is None else [rule(text, index) for index in range(layers)]


def _every(step: int | None, other: Kind) -> Callable[[Mapping[str, Any], int], Kind]:
    """Full attention in every `step`-th layer, or as sliding_window_pattern says."""

    def kind(text: Mapping[str, Any], index: int) -> Kind:
        period = config_keys.integer(text, _PERIODS) or step or 1
        return other if (index + 1) % period else Kind.FULL

    return kind


_PERIODS = (
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "full_attention_interval",
    "global_attn_every_n_layers",
)


def _llama4(text: Mapping[str, Any], index: int) -> Kind:
    """Chunks in the layers that have rotary positions."""
    if not config_keys.integer(text, ("attention_chunk_size",), at_least=0):
        return Kind.FULL
    listed = text.get("no_rope_layers")
    if listed:
        if not isinstance(listed, list) or index >= len(listed):
            config_keys.invalid("no_rope_layers", "must be a list with an entry for each layer")
        return Kind.CHUNKED if listed[index] else Kind.FULL
    period = config_keys.integer(text, ("no_rope_layer_interval",)) or 4
    return Kind.CHUNKED if (index + 1) % period else Kind.FULL


def _jamba(text: Mapping[str, Any], index: int) -> Kind:
    period = config_keys.integer(text, ("attn_layer_period",)) or 8
    offset = config_keys.integer(text, ("attn_layer_offset",), at_least=0)
    is_attention = index % period == (4 if offset is None else offset)
    return Kind.FULL if is_attention else Kind.RECURRENT


def _lfm2(text: Mapping[str, Any], index: int) -> Kind:
    full = text.get("full_attn_idxs")
    if full is None:
        return Kind.FULL
    if not isinstance(full, list):
        config_keys.invalid("full_attn_idxs", "must be a list of layer indices")
    return Kind.FULL if index in full else Kind.RECURRENT


def _mimo_v2(text: Mapping[str, Any], index: int) -> Kind:
    pattern = text.get("hybrid_layer_pattern")
    if not isinstance(pattern, list) or index >= len(pattern):
        config_keys.invalid("hybrid_layer_pattern", "must be a list with an entry for each layer")
    return Kind.SLIDING if pattern[index] == 1 else Kind.FULL


def _qwen(text: Mapping[str, Any], index: int) -> Kind:
    """Windows from layer max_window_layers on; the engine takes all layers or none."""
    first = config_keys.integer(text, ("max_window_layers",), at_least=0)
    first = 28 if first is None else first
    layers = config_keys.required(text, ("num_hidden_layers",))
    if 0 < first < layers and text.get("use_sliding_window") and text.get("sliding_window"):
        config_keys.not_sized(
            ["max_window_layers"], "the engine runs no model of this type with some windows"
        )
    return Kind.SLIDING if index >= first else Kind.FULL


_RULES: dict[str, Callable[[Mapping[str, Any], int], Kind]] = {
    "gemma2": lambda text, index: Kind.FULL if index % 2 else Kind.SLIDING,
    "gpt_oss": lambda text, index: Kind.FULL if index % 2 else Kind.SLIDING,
    "gemma3_text": _every(6, Kind.SLIDING),
    "gemma3n_text": _every(5, Kind.SLIDING),
    "gemma4_text": _every(6, Kind.SLIDING),
    "cohere2": _every(4, Kind.SLIDING),
    "olmo3": _every(4, Kind.SLIDING),
    "exaone4": _every(4, Kind.SLIDING),
    "afmoe": _every(4, Kind.SLIDING),
    "step3p5": lambda text, index: Kind.FULL if index % 2 else Kind.SLIDING,
    "cwm": lambda text, index: Kind.SLIDING if index % 4 else Kind.FULL,
    "llama4_text": _llama4,
    "jamba": _jamba,
    "lfm2": _lfm2,
    "mimo_v2": _mimo_v2,
    "mimo_v2_flash": _mimo_v2,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "falcon_h1": lambda text, index: Kind.BOTH,
    "qwen3_next": _every(4, Kind.RECURRENT),
    "qwen3_5_text": _every(4, Kind.RECURRENT),
    "qwen3_5_moe_text": _every(4, Kind.RECURRENT),
    "olmo_hybrid": _every(4, Kind.RECURRENT),
}
