"""How large a resource may be: looked at before anything else reads it, without recursion."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal

MOST_BYTES = 512 * 1024
"""Of `spec`. The API server stores 1.5 MiB, and keeps the names of all fields a second time."""
MOST_ENTRIES = 512
"""Of one object or list that is not a config.json: no field of the resource takes more."""
DEEPEST = 32
_FREE_FORM = ("spec.model.config", "spec.engine.speculative.config")
_INSTEAD = "put a config.json into a ConfigMap that model.configRef names, and remove the rest"


def check(document: Mapping[str, Any]) -> Finding | None:
    """Return what is too large about a resource; None where all of it may be read.

    The bytes are those of its characters, without the marks and spaces of a notation.
    """
    size = 0
    waiting: list[tuple[str, int, Any]] = [("spec", 0, document.get("spec"))]
    while waiting:
        path, depth, item = waiting.pop()
        if depth > DEEPEST:
            limit = f"is nested more than {DEEPEST} levels deep"
            return refusal(Reason.SPEC_TOO_LARGE, _cut(path), limit, _INSTEAD)
        if not isinstance(item, Mapping | list):
            size += _length(item)
        elif len(item) > MOST_ENTRIES and not path.startswith(_FREE_FORM):
            limit = f"has {len(item):,} entries, and at most {MOST_ENTRIES} are read"
            return refusal(Reason.SPEC_TOO_LARGE, _cut(path), limit, _INSTEAD)
        else:
            size += sum(_length(key) for key in item) if isinstance(item, Mapping) else 0
            waiting += ((at, depth + 1, inner) for at, inner in _inside(path, item))
        if size > MOST_BYTES:
            limit = f"has more than {MOST_BYTES // 1024} KiB of text"
            return refusal(Reason.SPEC_TOO_LARGE, "spec", limit, _INSTEAD)
    return None


def _inside(path: str, item: Mapping[Any, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(item, list):
        return ((f"{path}[{index}]", inner) for index, inner in enumerate(item))
    return ((f"{path}.{key}", inner) for key, inner in item.items())


def _length(value: object) -> int:
    """Return about the bytes of a scalar; a number of thousands of digits is text by then."""
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else 8


def _cut(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:120]}..."
