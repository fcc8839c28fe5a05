"""What a model takes beside text, and whether its images attend in both directions."""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys

# Wrappers whose images attend in both directions; the engine then needs backends that can.
_BOTH_WAYS = ("gemma3", "paligemma", "molmo2", "bagel", "moondream3")
# Wrappers that say so by a key of their text part, and those that take images and no videos.
_SAY_BY_KEY = ("gemma4", "diffusion_gemma")
_ONLY_IMAGES = ("gemma3", "gemma3n", "paligemma", "bagel", "moondream3")


def read(config: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of input that the engine has a limit for; none in a model of text."""
    model_type = config_keys.text(config, "model_type")
    whole = config_keys.mapping(config, "thinker_config") or config
    has_audio = whole.get("audio_config") is not None
    has_vision = whole.get("vision_config") is not None or model_type in _BOTH_WAYS
    if not has_audio and not has_vision:
        return () if text is config else ("image", "video", "audio")
    visual = ("image",) if model_type in _ONLY_IMAGES else ("image", "video")
    return (visual if has_vision else ()) + (("audio",) if has_audio else ())


def are_both_ways(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    """Tell whether images attend in both directions, by the engine's own rule."""
    model_type = config_keys.text(config, "model_type") or config_keys.text(text, "model_type")
    if (model_type or "").startswith(_SAY_BY_KEY):
        return text.get("use_bidirectional_attention") == "vision"
    told = config.get("is_mm_prefix_lm")
    return model_type in _BOTH_WAYS if told is None else bool(told)
