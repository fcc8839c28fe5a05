"""From a pydantic model to a structural schema, as a CustomResourceDefinition wants it.

Pydantic writes JSON Schema 2020-12; the API server takes a subset of an older draft with extensions
of its own. Everything that differs is translated here, and `schema_lint` checks the result.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tidegate.api import rules, text
from tidegate.api.wire import Wire

Schema = dict[str, Any]

_DROPPED = ("title", "propertyNames", "const", "$ref", "allOf")


class _Generator(GenerateJsonSchema):
    """Pydantic's generator with Kubernetes' view of null: an absent field, never a value."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        generated = super().default_schema(schema)
        default = schema.get("default")
        if default is None:
            generated.pop("default", None)
        elif isinstance(default, BaseModel):
            generated["default"] = {}  # the API server fills in the defaults of the fields
        else:
            generated["default"] = _spelled(default, schema["schema"])
        return generated


def _spelled(default: Any, schema: Mapping[str, Any]) -> Any:
    """Spell a default as a user would: a duration or a size by its serializer."""
    serialization = schema.get("serialization", {})
    if serialization.get("type") == "function-plain":
        return serialization["function"](default)
    if isinstance(default, list):
        return [item.wire() if isinstance(item, Wire) else item for item in default]
    return default


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model: everything inlined, in the order of the fields.

    Raises:
        ValueError: The model contains itself; a CustomResourceDefinition cannot say that.
    """
    generated = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    return _translate(generated, generated.get("$defs", {}), ())


def _translate(
    node: Mapping[str, Any], definitions: Mapping[str, Any], path: tuple[str, ...]
) -> Schema:
    node, path = _inlined(node, definitions, path)
    result = {key: value for key, value in node.items() if key not in (*_DROPPED, "$defs")}
    if "const" in node:
        result["enum"] = [node["const"]]
    if "description" in node:
        result["description"] = " ".join(node["description"].split())
    for bound in ("Minimum", "Maximum"):
        _exclusive(result, f"exclusive{bound}", bound.lower())
    _say_pattern(result)
    if "properties" in node:
        result["properties"] = {
            name: _translate(inner, definitions, path) for name, inner in node["properties"].items()
        }
    if "items" in node:
        result["items"] = _translate(node["items"], definitions, path)
    _map(result, node, definitions, path)
    return result


def _say_pattern(result: Schema) -> None:
    """Turn a pattern into a rule: the API server then says the sentence, not the expression."""
    pattern = result.pop("pattern", None)
    if pattern is None:
        return
    expression = rules.matches("self", pattern)
    if result.get("x-kubernetes-int-or-string"):
        expression = f"type(self) == int || {expression}"
    said = rules.rule(expression, text.SENTENCES[pattern])
    result[rules.VALIDATIONS] = [said, *result.get(rules.VALIDATIONS, [])]


def _inlined(
    node: Mapping[str, Any], definitions: Mapping[str, Any], path: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Replace a reference by what it refers to; what stands beside it wins."""
    while "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in path:
            raise ValueError(f"{name} contains itself: {' > '.join((*path, name))}")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node, path = {**definitions[name], **beside}, (*path, name)
    return node, path


def _exclusive(result: Schema, exclusive: str, inclusive: str) -> None:
    """Write an exclusive bound as draft 4 does: the number, and a flag beside it."""
    if exclusive in result:
        result[inclusive] = result.pop(exclusive)
        result[exclusive] = True


def _map(
    result: Schema, node: Mapping[str, Any], definitions: Mapping[str, Any], path: tuple[str, ...]
) -> None:
    """Write a map's values; a closed map becomes properties, for pruning does the rest."""
    values = result.pop("additionalProperties", None)
    for pattern, matching in result.pop("patternProperties", {}).items():
        values = matching
        result.update(
            rules.rules(
                rules.rule(
                    f"self.all(key, {rules.matches('key', pattern)})",
                    f"each key {text.SENTENCES[pattern]}",
                )
            )
        )
    if values is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    elif isinstance(values, Mapping):
        inner = _translate(values, definitions, path)
        names = node.get("propertyNames", {}).get("enum")
        if names is None:
            result["additionalProperties"] = inner
        else:
            result.pop("maxProperties", None)
            result["properties"] = {name: dict(inner) for name in names}
