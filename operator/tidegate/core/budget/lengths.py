"""How many tokens a model takes: by itself, and at most, as its config.json tells the engine."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import config_keys

_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_BEFORE_ALL = "model_max_length"  # where it is given, the engine looks at no other
_WHEN_UNKNOWN = 2048
_ORIGINAL = "original_max_position_embeddings"
# Scalings whose length config.json already contains; the engine multiplies by the others' factor.
_IS_SCALED = (
    "longrope",
    "llama3",
    "yarn",
    "telechat3-yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
)
_OLD_NAMES = {"su": "longrope", "mrope": "default"}
_LENGTH_IS_SCALED_IN = "gemma3"  # model types with this part: whatever their scaling says


@dataclass(frozen=True)
class Lengths:
    """What the engine takes by `default`, and the `longest` that may be asked for.

    Where no key tells (`is_known`), the default is the engine's own, and nothing is a bound.
    """

    default: int
    longest: int
    is_known: bool


@dataclass(frozen=True)
class _Rope:
    """One kind of rotary embedding; layers of different types may have several."""

    kind: str
    factor: float


def read(text: Mapping[str, Any], model_type: str) -> Lengths:
    """Return the lengths of the text part of a config.json.

    Raises:
        Refused: MODEL_CONFIG_INVALID names the key that makes no sense.
    """
    lengths = [config_keys.integer(text, (key,)) for key in _KEYS]
    told = [length for length in lengths if length is not None]
    before_all = config_keys.integer(text, (_BEFORE_ALL,))
    length = before_all or min(told, default=_WHEN_UNKNOWN)
    ropes = list(_ropes(text))
    scaled = [rope.factor for rope in ropes if rope.kind not in _IS_SCALED]
    if scaled and _LENGTH_IS_SCALED_IN not in model_type:
        length = math.floor(length * scaled[-1])
    default = length
    if any(rope.kind == "longrope" for rope in ropes):
        default = config_keys.integer(text, (_ORIGINAL,)) or length
    return Lengths(default, max(length, before_all or 0), bool(told))


def _ropes(text: Mapping[str, Any]) -> Iterator[_Rope]:
    """Return the rotary embeddings: one, or one for each type of layer."""
    for key in ("rope_scaling", "rope_parameters"):
        given = config_keys.mapping(text, key)
        if given:
            by_layer = [one for one in given.values() if isinstance(one, Mapping)]
            for one in by_layer or [given]:
                yield _rope(one, key)
            return


def _rope(given: Mapping[str, Any], key: str) -> _Rope:
    kind = given.get("rope_type", given.get("type", "default"))
    factor = given.get("factor")
    named = _OLD_NAMES.get(kind, kind) if isinstance(kind, str) else str(kind)
    if factor is None or named in _IS_SCALED:
        return _Rope(named, 1.0)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1e6:
        config_keys.invalid(key, f"has no sensible factor: {factor!r}"[:200])
    return _Rope(named, factor)
