"""What is known of one engine's memory, and its text in an annotation or a ConfigMap."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeGuard

from tidegate.core.budget.measured import MeasuredTerms

_MOST_BYTES = 2**50
_MOST = 2**53
_LONGEST_TEXT = 4096


@dataclass(frozen=True)
class Measurement:
    """The memory of each GPU of an engine, and the limits that it ran with when it profiled.

    With the same limits as these the engine is a very copy of the measured one, and may be told to
    take the same KV without profiling.
    """

    terms: MeasuredTerms
    max_model_len: int
    max_num_seqs: int


def encode(measurement: Measurement) -> str:
    """Write a measurement as one line of JSON, without what is not known."""
    return json.dumps(document(measurement), sort_keys=True, separators=(",", ":"))


def document(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as it is stored."""
    known = {name: value for name, value in asdict(measurement.terms).items() if value is not None}
    return {
        "terms": known,
        "maxModelLen": measurement.max_model_len,
        "maxNumSeqs": measurement.max_num_seqs,
    }


def decode(text: str | None) -> Measurement | None:
    """Read what `encode` wrote; None for anything else."""
    if not text or len(text) > _LONGEST_TEXT:
        return None
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return read(stored)


def read(stored: object) -> Measurement | None:
    """Read what `document` returned; None where any part of it cannot be."""
    if not isinstance(stored, Mapping) or not isinstance(stored.get("terms"), Mapping):
        return None
    names = {field.name for field in fields(MeasuredTerms)}
    terms = stored["terms"]
    if not set(terms) <= names or not all(is_count(v, _MOST_BYTES) for v in terms.values()):
        return None
    length, seqs = stored.get("maxModelLen"), stored.get("maxNumSeqs")
    if not (is_count(length, _MOST) and is_count(seqs, _MOST) and length and seqs):
        return None
    return Measurement(MeasuredTerms(**terms), length, seqs)


def is_count(value: object, most: int) -> TypeGuard[int]:
    """Say whether a value is a whole number from 0 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
