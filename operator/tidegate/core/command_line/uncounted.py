"""Flags that change memory in ways that the sizing does not model: refused, or said aloud."""

import math
from collections.abc import Mapping
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

# Flags that change the KV pool itself: a number would be a guess.
_REFUSED = {
    "disable-sliding-window": "it makes every layer keep all tokens of a shorter length",
    "hf-config-path": "the config comes from elsewhere; give that config.json as the model's own",
    "mm-encoder-only": "such an engine has no KV cache",
    "prefill-context-parallel-size": "it divides prompts over GPUs",
    "runner": "only generation is sized",
    "convert": "only generation is sized",
}
_HARMLESS_VALUES = {"runner": ("auto", "generate"), "convert": ("auto", "none")}
# Flags whose memory is not in the budget; which way the budget is off.
_UNCOUNTED = {
    "compilation-config": "what it changes is not counted, save mode and sizes of CUDA graphs",
    "cpu-offload-gb": "the weights that it moves to the host still count on the GPU",
    "enable-dbo": "the buffers of two micro-batches are not counted",
    "enable-eplb": "redundant experts are not counted",
    "enable-lora": "the adapters' slots are not counted",
    "mm-ipc-gpu-memory-gb": "its memory is not counted",
    "offload-group-size": "the weights that it moves to the host still count on the GPU",
    "quantization-config": "its scales are not counted",
    "ubatch-size": "the buffers of micro-batches are not counted",
}


def refuse(arguments: Mapping[str, Any], engine: Engine) -> None:
    """Refuse flags that the sizing of the pool does not cover.

    Raises:
        Refused: FLAG_UNSUPPORTED names them all, each with why.
    """
    faults = [
        f"{name}: {why}; it cannot be sized"
        for name, why in _REFUSED.items()
        if _is_set(name, arguments, engine)
        and arguments[name] not in _HARMLESS_VALUES.get(name, ())
    ]
    if faults:
        raise Refused(Reason.FLAG_UNSUPPORTED, "; ".join(faults), faults[0].partition(":")[0])


def sentences(arguments: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
    """Say which flags take or free memory that the budget does not count."""
    return tuple(
        f"--{name} is given: {what}"
        for name, what in _UNCOUNTED.items()
        if _is_set(name, arguments, engine)
    )


def _is_set(name: str, arguments: Mapping[str, Any], engine: Engine) -> bool:
    """Say whether a flag is given and differs from its default."""
    if name not in arguments or f"--{name}" not in engine.flags:
        return False
    value, default = arguments[name], engine.flags[f"--{name}"].default
    if isinstance(value, float) and math.isnan(value):
        return True
    return bool(value != default and value not in (None, False, 0, [], {}))
