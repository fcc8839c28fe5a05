"""What the API server forbids in a schema, and the bounds that we demand on top of it.

`faults` says at once, without a cluster, what `kubectl apply -f crds/` would say.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_VALUES = {"integer", "number", "string", "boolean", "object", "array"}
_ALLOWED = {
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_BOUND = {"array": "maxItems", "string": "maxLength"}


def faults(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a sentence for each fault, with the path of the field; nothing for a good schema."""
    yield from (f"{path}: {fault}" for fault in _own_faults(schema))
    yield from _metadata_faults(schema, path)
    for name, inner in schema.get("properties", {}).items():
        if (path, name) not in {("", "apiVersion"), ("", "kind"), ("", "metadata")}:
            yield from faults(inner, f"{path}.{name}")
    if "items" in schema:
        yield from faults(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from faults(schema["additionalProperties"], f"{path}.*")


def _own_faults(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword in sorted(set(schema) - _ALLOWED):
        yield f"{keyword} is not known to the API server or forbidden by it"
    yield from _type_faults(schema)
    yield from _bound_faults(schema)
    yield from _map_faults(schema)
    yield from _list_faults(schema)
    for keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        if not isinstance(schema.get(keyword, True), bool):
            yield f"{keyword} must be true beside the inclusive bound, not a number"
    if "default" in schema and _has_null(schema["default"]):
        yield "a default must not be or hold null"
    for rule in schema.get("x-kubernetes-validations", []):
        if not rule.get("rule") or not rule.get("message") or len(rule["message"]) > 2048:
            yield "a rule needs an expression and a message of at most 2048 characters"
        if "fieldPath" in rule and not _is_field(schema, rule["fieldPath"]):
            yield f"a rule names {rule['fieldPath']}, which is no field below it"


def _is_field(schema: Mapping[str, Any], path: str) -> bool:
    """Tell whether a path such as `.spec.engine` is of properties."""
    first, *steps = path.split(".")
    node: Mapping[str, Any] | None = schema
    for step in steps:
        node = (node or {}).get("properties", {}).get(step)
    return not first and bool(steps) and node is not None


def _type_faults(schema: Mapping[str, Any]) -> Iterator[str]:
    int_or_string = schema.get("x-kubernetes-int-or-string", False)
    if int_or_string:
        if "type" in schema or schema.get("anyOf", _INT_OR_STRING) != _INT_OR_STRING:
            yield "an int-or-string has no type, and anyOf integer and string"
    elif str(schema.get("type")) not in _VALUES:
        yield f"type must be one of {', '.join(sorted(_VALUES))}"
    elif "anyOf" in schema:
        yield "anyOf is for an int-or-string only; write one optional block for each kind"


def _bound_faults(schema: Mapping[str, Any]) -> Iterator[str]:
    kind = "string" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
    bound = _BOUND.get(str(kind))
    if bound and bound not in schema and "enum" not in schema:
        yield f"{bound} is missing"
    if kind in ("integer", "number") and "minimum" not in schema:
        yield "minimum is missing"
    is_open = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind == "object" and is_open and "maxProperties" not in schema:
        yield "maxProperties is missing"


def _map_faults(schema: Mapping[str, Any]) -> Iterator[str]:
    values = schema.get("additionalProperties")
    if values is not None and "properties" in schema:
        yield "additionalProperties and properties exclude each other"
    if isinstance(values, bool):
        yield "additionalProperties must be a schema"
    is_open = values is not None or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and not is_open and "properties" not in schema:
        yield "an object without properties keeps nothing"
    for name in schema.get("required", []):
        if name not in schema.get("properties", {}):
            yield f"required names {name}, which is no property"


def _list_faults(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("type") == "array" and "items" not in schema:
        yield "an array needs items"
    kind, items = schema.get("x-kubernetes-list-type"), schema.get("items", {})
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if (kind == "map") != bool(keys):
        yield "list type map goes with x-kubernetes-list-map-keys"
    for key in keys:
        is_set = key in items.get("required", []) or "default" in items["properties"].get(key, {})
        if not is_set:
            yield f"the map key {key} must be required or have a default"
    if kind == "set" and items.get("type") in ("object", "array"):
        yield "a set holds scalars"


def _metadata_faults(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    metadata = schema.get("properties", {}).get("metadata")
    if metadata is not None and (path or metadata != {"type": "object"}):
        yield f"{path}.metadata: only the root has metadata, and it says nothing but type object"


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
