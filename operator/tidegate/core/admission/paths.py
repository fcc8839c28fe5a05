"""Paths of fields as findings spell them: `spec.engine.env[2].name`, `labels['a/b']`."""

import re
from collections.abc import Mapping
from typing import Any

Steps = tuple[str | int, ...]
_STEP = re.compile(r"\['(?P<quoted>[^']*)'\]|\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)")


def steps(path: str) -> Steps:
    """Return the keys and indices of a path."""
    return tuple(map(_step, _STEP.finditer(path)))


def _step(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    quoted: str | None = match["quoted"]
    return quoted if quoted is not None else match["name"]


def value(document: Any, path: Steps) -> Any:
    """Return what stands at a path, None where nothing does."""
    for step in path:
        if isinstance(step, int):
            document = document[step] if _has(document, step) else None
        else:
            document = document.get(step) if isinstance(document, Mapping) else None
    return document


def order(path: Steps) -> tuple[tuple[bool, int, str], ...]:
    """Return what sorts paths so that entries of a list stand in the list's order."""
    return tuple((True, step, "") if isinstance(step, int) else (False, 0, step) for step in path)


def _has(document: Any, index: int) -> bool:
    return isinstance(document, list) and index < len(document)
