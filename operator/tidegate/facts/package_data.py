"""Reads the data files that ship inside this package; nothing else in `facts` touches a file."""

import json
from importlib import resources
from typing import Any

_DATA = resources.files(__package__) / "data"


def names(folder: str, suffix: str = ".json") -> tuple[str, ...]:
    """Return the names, without suffix, of the files in a folder of `data`, sorted."""
    found = (entry.name for entry in (_DATA / folder).iterdir())
    return tuple(sorted(name.removesuffix(suffix) for name in found if name.endswith(suffix)))


def load(path: str) -> Any:
    """Return the content of the JSON file `data/<path>`; callers cache it."""
    return json.loads((_DATA / path).read_text(encoding="utf-8"))
