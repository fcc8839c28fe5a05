"""The part of a config.json that describes the language model."""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys

_KEYS = ("text_config", "llm_config", "language_config")
# An abridged config.json may give the text part under the wrapper's own type.
_TYPES = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "minimax_m3_vl": "minimax_m3",
    "step3p7": "step3p5",
}


def of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return that part: the config itself where it is of a language model.

    Raises:
        Refused: MODEL_CONFIG_INVALID, it is no object.
    """
    if not isinstance(config, Mapping):
        config_keys.invalid("config", "must be an object")
    thinker = config_keys.mapping(config, "thinker_config")
    if thinker is not None:
        return of(thinker)
    key = config_keys.present(config, _KEYS)
    if key is None:
        return config
    return config_keys.mapping(config, key) or config


def model_type(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    """Return the part's own type, also where an abridged config has the wrapper's."""
    named = config_keys.text(text, "model_type") or ""
    outer = config_keys.text(config, "model_type") or ""
    named = named or (outer if outer in _TYPES else "")
    return _TYPES.get(named, named)
