"""values.yaml, written from the fields: a comment above every key."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from tidegate.shell.chart.fields import ValueField, all_fields

_WIDTH = 100
_HEADER = (
    "# What can be set. Generated from operator/tidegate/shell/chart/values.py by scripts/generate;"
    "\n# put your own values into a file of yours: helm install ... -f my-values.yaml\n"
)


def text() -> str:
    """Return values.yaml."""
    lines = [line for field in all_fields() for line in _field(field)]
    return _HEADER + "\n".join(lines) + "\n"


def _field(field: ValueField) -> Iterator[str]:
    indent = "  " * (len(field.path) - 1)
    if len(field.path) == 1:
        yield ""
    yield from _comment(field.meaning, indent)
    for name, meaning in field.entries:
        yield from _comment(f"  {name}: {meaning}", indent, hanging="    ")
    key = f"{indent}{field.path[-1]}:"
    yield key if field.is_object else f"{key} {spelled(field.default)}"


def spelled(value: Any) -> str:
    """Spell a default in one line that is YAML, and JSON where it is a list or an object."""
    if isinstance(value, str) and value and value not in {"true", "false", "null"}:
        is_plain = value.replace("-", "").replace(".", "").isalnum() and not value[0].isdigit()
        return value if is_plain else json.dumps(value)
    return json.dumps(value)


def _comment(words: str, indent: str, hanging: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# {hanging}",
        break_long_words=False,
        break_on_hyphens=False,
    )
