"""A model's config.json inside of the resource: any JSON object, within bounds."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.json_schema import WithJsonSchema

MAX_KEYS = 512
"""Keys at the top; the largest published config.json has under 150."""
MAX_VALUES = 20_000
MAX_TEXT = 16_384
MAX_DEPTH = 16


def read_object(value: object) -> object:
    """Check that a mapping is JSON and of a sane size; walks without recursion.

    Raises:
        ValueError: It is not; the message names the key.
    """
    if not isinstance(value, dict):
        return value  # pydantic says that a mapping is wanted
    if len(value) > MAX_KEYS:
        raise ValueError(f"must have at most {MAX_KEYS} keys; it has {len(value)}")
    waiting: list[tuple[str, int, Any]] = [("", 0, value)]
    seen = 0
    while waiting:
        path, depth, item = waiting.pop()
        seen += 1
        if seen > MAX_VALUES or depth > MAX_DEPTH:
            raise ValueError(
                f"is too large: at most {MAX_VALUES} values, nested at most {MAX_DEPTH} deep"
            )
        if isinstance(item, dict | list):
            waiting.extend((at, depth + 1, inner) for at, inner in _inside(path, item))
        else:
            _check_scalar(path, item)
    return value


def _inside(path: str, item: dict[Any, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(item, list):
        yield from ((f"{path}[{index}]", inner) for index, inner in enumerate(item))
        return
    for key, inner in item.items():
        if not isinstance(key, str):
            raise ValueError(f"has the key {key!r}, which is not text; put it in quotes")
        if len(key) > MAX_TEXT:
            raise ValueError(f"has a key of more than {MAX_TEXT} characters")
        yield f"{path}.{key}" if path else key, inner


def _check_scalar(path: str, item: object) -> None:
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError(f"has no finite number at {path!r}; JSON knows no NaN and no infinity")
    if item is not None and not isinstance(item, bool | int | float | str):
        raise ValueError(f"has a {type(item).__name__} at {path!r}; put it in quotes")
    if isinstance(item, str) and len(item) > MAX_TEXT:
        raise ValueError(f"has a text of more than {MAX_TEXT} characters at {path!r}")


FreeForm = Annotated[
    dict[str, Any],
    BeforeValidator(read_object),
    WithJsonSchema(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "maxProperties": MAX_KEYS,
        }
    ),
]
"""A JSON object whose keys are not Tidegate's; the API server keeps what it does not know."""
