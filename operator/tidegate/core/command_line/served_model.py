"""The model as the flags serve it; each config.json is read once, however often it is asked for."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tidegate.core.budget import shape
from tidegate.core.budget.shape import ModelShape

_KEPT = 256


def of(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> ModelShape:
    """Return the shape of a config.json, with the keys that `--hf-overrides` changes.

    Raises:
        Refused: The config makes no sense, or its structure is not covered.
    """
    return _read(json.dumps(_overridden(config, arguments.get("hf-overrides"))))


def _overridden(
    config: Mapping[str, Any], overrides: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return a config with keys replaced; objects are merged key by key."""
    if not overrides:
        return config
    merged = dict(config)
    for key, value in overrides.items():
        there = merged.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            value = _overridden(there, value)
        merged[key] = value
    return merged


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> ModelShape:
    return shape.read(json.loads(text))
