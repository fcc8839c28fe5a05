"""A line of JSON as a document, and its keys as typed values; a fault names its key."""

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tidegate.errors import Invalid, Problem

LARGEST = 2**60
"""The largest count of bytes or tokens that a case may give."""
_LONGEST_KEY = 80
_CONFIG = "config"  # of a model or a draft: written by others, and read key by key


class _EndlessError(Exception):
    """A number in a document is not finite; where it is, a second look tells."""


def parse(line: str) -> dict[str, Any]:
    """Return the object of one line.

    Raises:
        Invalid: The line is no JSON object, repeats a key, or holds NaN or an endless number.
    """
    try:
        document = _DECODER.decode(line)
    except _EndlessError:
        document = json.loads(line, object_pairs_hook=_unique)
        _refuse_endless(document, "")
    except RecursionError:
        fault("case", "is nested too deeply")
    except ValueError as error:
        fault("case", f"is no JSON: {_shortened(error)}")
    if not isinstance(document, dict):
        fault("case", f"must be an object, not {_kind(document)}")
    return document


def known(document: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Refuse keys that have no meaning; suggests the closest that has one."""
    for key in document:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(keys)}"
            fault(_path(where, key[:_LONGEST_KEY]), f"unknown key; {hint}")


def mapping(document: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any] | None:
    """Return the object under a key; None where it is absent or null."""
    value = document.get(key)
    if value is not None and not isinstance(value, Mapping):
        fault(_path(where, key), f"must be an object, not {_kind(value)}")
    return value


def text(document: Mapping[str, Any], key: str, where: str = "") -> str | None:
    """Return the string under a key; None where it is absent or null."""
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        fault(_path(where, key), f"must be a string, not {_kind(value)}")
    return value


def label(document: Mapping[str, Any], key: str) -> str | int | None:
    """Return the name under a key, a string or a whole number; None where it is absent."""
    value = document.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return text(document, key)


def whole(document: Mapping[str, Any], key: str, where: str = "", at_least: int = 0) -> int | None:
    """Return the whole number under a key; None where it is absent or null."""
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        fault(_path(where, key), f"must be a whole number, not {_kind(value)}")
    if not at_least <= value <= LARGEST:
        shown = value if abs(value) < 10**30 else f"a number of {_digits(value)} digits"
        fault(_path(where, key), f"must be from {at_least} to {LARGEST}, not {shown}")
    return value


def fault(field: str, problem: str) -> NoReturn:
    """Refuse a line for one of its keys.

    Raises:
        Invalid: always.
    """
    raise Invalid([Problem(field, problem)])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                fault(key[:_LONGEST_KEY], "is given twice")
            seen.add(key)
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _EndlessError
    return number


def _no_constant(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's reader takes and JSON does not have."""
    raise _EndlessError


def _refuse_endless(value: Any, where: str) -> None:
    """Refuse a number that is not finite by its key; a model's own config.json may hold some."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key != _CONFIG:
                _refuse_endless(entry, _path(where, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _refuse_endless(entry, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        fault(where or "case", "must be a finite number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _digits(value: int) -> int:
    return math.floor(math.log10(abs(value))) + 1


def _kind(value: Any) -> str:
    """Name a JSON value's type, with the value where it is short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number" if abs(value) > 10**30 else f"the number {value}"
    if isinstance(value, str):
        return f"the string {json.dumps(value[:40])}"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "null"


def _shortened(error: ValueError) -> str:
    return " ".join(str(error).split())[:120]
