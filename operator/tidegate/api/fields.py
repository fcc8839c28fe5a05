"""Every field of LLMDeployment as facts for people: type, default, bounds, what it means."""

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.api import crd
from tidegate.api.rules import VALIDATIONS
from tidegate.api.schema import Schema

_RANGES = (
    ("minimum", "maximum", ""),
    ("minItems", "maxItems", " entries"),
    ("minLength", "maxLength", " characters"),
    ("minProperties", "maxProperties", " keys"),
)


@dataclass(frozen=True)
class FieldFacts:
    """One field; `path` is as the user writes it, with `[]` after a list."""

    path: str
    type: str
    description: str
    required: bool
    default: str | None
    """JSON, or None when the field is simply absent."""
    bounds: tuple[str, ...]
    """What must hold, a sentence or a range each."""
    fields: tuple[str, ...]
    """Names of the fields inside of it."""

    def wire(self) -> dict[str, Any]:
        """Return the facts as a JSON document."""
        return asdict(self)

    def text(self) -> str:
        """Return the facts as lines for a terminal."""
        lines = [f"{self.path} <{self.type}>", "", self.description, ""]
        lines += ["required"] if self.required else []
        lines += [f"default: {self.default}"] if self.default else []
        lines += [f"- {bound}" for bound in self.bounds]
        lines += [f"fields: {', '.join(self.fields)}"] if self.fields else []
        return "\n".join(lines).rstrip()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2].removesuffix("[]")


@functools.cache
def by_path() -> dict[str, FieldFacts]:
    """Return every field of the kind by its path, parents before their children."""
    root = crd.kind_schema()
    return {facts.path: facts for facts in _walk(root, "")}


def _walk(schema: Schema, path: str) -> Iterator[FieldFacts]:
    required = schema.get("required", [])
    for name, inner in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield _facts(at, inner, name in required)
        yield from _walk(inner, at)
        if inner.get("type") == "array":
            yield from _walk(inner["items"], f"{at}[]")


def _facts(path: str, schema: Schema, required: bool) -> FieldFacts:
    return FieldFacts(
        path=path,
        type=type_of(schema),
        description=schema.get("description", "Kubernetes' own."),
        required=required,
        default=json.dumps(schema["default"]) if "default" in schema else None,
        bounds=tuple(_bounds(schema)),
        fields=tuple(_inner(schema).get("properties", {})),
    )


def type_of(schema: Schema) -> str:
    """Say the type of a schema: `integer`, `list of string`, `map of string to string`."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {type_of(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of string to {type_of(schema['additionalProperties'])}"
    return str(schema["type"])


def _inner(schema: Schema) -> Schema:
    inner: Schema = schema.get("items", schema)
    return inner


def _bounds(schema: Schema) -> Iterator[str]:
    if "enum" in schema:
        yield f"one of {', '.join(map(str, schema['enum']))}"
    for least, most, unit in _RANGES:
        yield from _range(schema, least, most, unit)
    if schema.get("x-kubernetes-list-type") == "set":
        yield "no entry twice"
    for key in schema.get("x-kubernetes-list-map-keys", []):
        yield f"no {key} twice"
    for rule in schema.get(VALIDATIONS, []):
        yield rule["message"]
    for part, subject in (("items", "entry"), ("additionalProperties", "value")):
        if part in schema and schema[part].get("type") != "object":
            for bound in _bounds(schema[part]):
                yield f"each {subject}: {bound}"


def _range(schema: Schema, least: str, most: str, unit: str) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string") and least == "minLength":
        return  # a technical bound; the rule's sentence says what may be written
    low, high = schema.get(least), schema.get(most)
    above = "more than " if schema.get("exclusiveMinimum") and least == "minimum" else ""
    if low is not None and high is not None:
        yield f"from {low} to {high}{unit}" if not above else f"{above}{low}, at most {high}{unit}"
    elif high is not None:
        yield f"at most {high}{unit}"
    elif low is not None:
        yield f"at least {low}{unit}"


def same_fields(one: Schema, other: Schema) -> bool:
    """Tell whether two objects have the same fields, whatever is said of the objects themselves."""
    return all(one.get(key) == other.get(key) for key in ("properties", "required", VALIDATIONS))
