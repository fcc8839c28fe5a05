"""The defaults that are written into a resource: those of its schema, and no others.

A default that depends on another field (the served name on the model's id, the engine's version on
the image) is never written: it would stay behind when a GitOps tool changes that field. What is
worked out shows in `status.plan`.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api import crd
from tidegate.api.schema import Schema

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Addition:
    """A field that the user left out, and the value that it has by default."""

    path: Path
    value: Any

    @property
    def operation(self) -> dict[str, Any]:
        """The addition as an operation of a JSON patch (RFC 6902)."""
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in self.path)
        return {"op": "add", "path": f"/{'/'.join(steps)}", "value": copy.deepcopy(self.value)}


def missing(document: Mapping[str, Any]) -> tuple[Addition, ...]:
    """Return what is to be added, as the API server does it by the same schema.

    Nothing that the user wrote is touched; null is what an absent field is.
    """
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return ()
    return tuple(_missing(_spec_schema(), spec, ("spec",)))


def fill(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with its defaults; filling it once more changes nothing."""
    filled = copy.deepcopy(dict(document))
    for addition in missing(document):
        part: Any = filled
        for step in addition.path[:-1]:
            part = part[step]
        part[addition.path[-1]] = copy.deepcopy(addition.value)
    return filled


@functools.cache
def _spec_schema() -> Schema:
    schema: Schema = crd.kind_schema()["properties"]["spec"]
    return schema


def _missing(schema: Schema, value: Any, path: Path) -> Iterator[Addition]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _missing(schema.get("items", {}), item, (*path, index))
    if not isinstance(value, Mapping):
        return
    for name, inner in schema.get("properties", {}).items():
        if value.get(name) is not None:
            yield from _missing(inner, value[name], (*path, name))
        elif "default" in inner:
            yield Addition((*path, name), _whole(inner))


def _whole(schema: Schema) -> Any:
    """Return a default with the defaults inside of it."""
    value = copy.deepcopy(schema["default"])
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in value and "default" in inner:
                value[name] = _whole(inner)
    return value
