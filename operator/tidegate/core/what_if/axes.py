"""What is varied: `--vary FIELD=VALUE,VALUE`, and every combination of several."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import Invalid, Problem

MOST = 200
"""The most combinations of one table: more is no table that anybody reads."""
_FIELD = "--vary"
_NUMBER = re.compile(r"-?\d{1,18}")
_WORDS = {"true": True, "false": False}
Value = str | int | float | bool
Combination = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Axis:
    """One field and the values that it takes in turn."""

    field: str
    values: tuple[Value, ...]


def parse(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Read `FIELD=VALUE,VALUE` texts.

    Raises:
        Invalid: A text has no field or no value, or a field comes twice.
    """
    axes = tuple(_axis(text) for text in texts)
    fields = [axis.field for axis in axes]
    for field in fields:
        if fields.count(field) > 1:
            _fault(field, f"is varied twice; write {field}=A,B once with all values")
    return axes


def combinations(axes: Sequence[Axis]) -> tuple[Combination, ...]:
    """Return every combination, the last axis varying fastest.

    Raises:
        Invalid: There are more than a table can show.
    """
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > MOST:
        sizes = " x ".join(str(len(axis.values)) for axis in axes)
        _fault(axes[-1].field, f"{sizes} = {count} combinations are above {MOST}; vary fewer")
    fields = [axis.field for axis in axes]
    return tuple(
        tuple(zip(fields, values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    )


def _axis(text: str) -> Axis:
    field, equals, listed = text.partition("=")
    field = field.strip()
    values = [part.strip() for part in listed.split(",")]
    if not equals or not field or not all(values):
        shown = text[:80]
        _fault(shown, "must be FIELD=VALUE,VALUE, such as kvCache.dtype=auto,fp8")
    return Axis(field, tuple(dict.fromkeys(_value(value) for value in values)))


def _value(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if "." in text and abs(number) < 10**18 else text


def _fault(field: str, problem: str) -> None:
    raise Invalid([Problem(f"{_FIELD} {field}", problem)])
