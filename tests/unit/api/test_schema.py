"""From models to structural schemas, and the lint of the result."""

from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import Field

from tidegate.api import crd, schema, schema_lint, text
from tidegate.api.freeform import FreeForm
from tidegate.api.rules import rule, rules
from tidegate.api.wire import Bytes, LabelKey, LabelValue, Seconds, Wire


class Inner(Wire):
    """An inner object."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """A share."""


class Example(Wire):
    """Every kind of field."""

    word: Annotated[str, Field(max_length=5)]
    """A
    word."""
    maybe: Annotated[int, Field(ge=1)] | None = None
    one: Literal["a"] = "a"
    some: Literal["a", "b"] | None = None
    inner: Inner = Inner()
    perhaps: Inner | None = None
    many: Annotated[list[Inner], Field(max_length=3)]
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=4)]
    closed: Annotated[dict[Literal["x", "y"], Annotated[int, Field(ge=0)]], Field(max_length=2)]
    free: FreeForm | None = None
    size: Bytes = 2**30
    wait: Seconds = 90.0


PROPERTIES = schema.structural(Example)["properties"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("word", {"type": "string", "maxLength": 5, "description": "A word."}),
        ("maybe", {"type": "integer", "minimum": 1}),
        ("one", {"type": "string", "enum": ["a"], "default": "a"}),
        ("some", {"type": "string", "enum": ["a", "b"]}),
        (
            "closed",
            {
                "type": "object",
                "properties": {key: {"type": "integer", "minimum": 0} for key in "xy"},
            },
        ),
        (
            "free",
            {
                "type": "object",
                "maxProperties": 512,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
    ],
)
def test_a_field_becomes_what_the_api_server_wants(field, expected):
    assert PROPERTIES[field] == expected


def test_an_exclusive_bound_is_a_flag_beside_the_bound():
    share = PROPERTIES["perhaps"]["properties"]["share"]

    assert share["minimum"] == 0
    assert share["exclusiveMinimum"] is True
    assert share["maximum"] == 1
    assert share["exclusiveMaximum"] is True


def test_a_whole_object_has_an_empty_default_that_the_server_fills():
    assert PROPERTIES["inner"]["default"] == {}
    assert "default" not in PROPERTIES["perhaps"]


def test_defaults_are_spelled_as_a_user_writes_them():
    assert PROPERTIES["size"]["default"] == "1Gi"
    assert PROPERTIES["wait"]["default"] == "90s"


def test_a_pattern_becomes_a_rule_that_speaks():
    said = PROPERTIES["labels"]["additionalProperties"]["x-kubernetes-validations"]
    keys = PROPERTIES["labels"]["x-kubernetes-validations"]

    assert said == [rule(f"self.matches(r'{text.LABEL_VALUE.pattern}')", text.LABEL_VALUE.says)]
    assert keys[0]["message"] == f"each key {text.LABEL_KEY.says}"


def test_the_description_of_a_field_wins_over_that_of_its_model():
    spec = crd.kind_schema()["properties"]["spec"]

    assert spec["properties"]["kvCache"]["description"].startswith("The KV cache's type")


def test_a_model_that_contains_itself_is_refused():
    with pytest.raises(ValueError, match="contains itself"):
        schema.structural(Endless)


class Endless(Wire):
    """A model that contains itself."""

    inner: "Endless | None" = None


def test_the_definition_has_no_fault():
    assert list(schema_lint.faults(crd.kind_schema())) == []


def test_the_definition_is_the_same_text_each_time_and_has_no_anchors():
    written = crd.generate()

    assert written == crd.generate()
    assert written.startswith("# Generated")
    assert "&id" not in written
    assert yaml.safe_load(written) == crd.definition()


def test_every_field_has_a_description():
    def bare(node: dict[str, Any], path: str):
        for name, inner in node.get("properties", {}).items():
            if "description" not in inner and path:
                yield f"{path}.{name}"
            yield from bare(inner, f"{path}.{name}")
            yield from bare(inner.get("items", {}), f"{path}.{name}[]")

    closed = (".cpu", ".memory", ".ephemeral-storage")
    found = [path for path in bare(crd.kind_schema(), "") if not path.endswith(closed)]
    assert found == []


STRING = {"type": "string", "maxLength": 1}
GOOD = {"type": "object", "properties": {"a": STRING}}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"$ref": "#/x", **STRING}, "$ref is not known"),
        ({"title": "A", **STRING}, "title is not known"),
        ({"uniqueItems": True, **STRING}, "uniqueItems"),
        ({"const": "a", **STRING}, "const"),
        ({"patternProperties": {}, **GOOD}, "patternProperties"),
        ({"oneOf": [], **STRING}, "oneOf"),
        ({"maxLength": 1}, "type must be one of"),
        ({"type": ["string", "null"]}, "type must be one of"),
        ({"type": "string"}, "maxLength is missing"),
        ({"type": "integer"}, "minimum is missing"),
        ({"type": "array", "items": STRING}, "maxItems is missing"),
        ({"type": "array", "maxItems": 1}, "needs items"),
        ({"type": "object", "additionalProperties": STRING}, "maxProperties is missing"),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "maxProperties is missing",
        ),
        ({"type": "object"}, "keeps nothing"),
        ({**GOOD, "additionalProperties": False}, "exclude each other"),
        ({**GOOD, "required": ["b"]}, "no property"),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": 0}, "exclusiveMinimum must be true"),
        ({**STRING, "default": None}, "null"),
        ({**GOOD, "default": {"a": [None]}}, "null"),
        ({**STRING, "x-kubernetes-validations": [{"rule": "true"}]}, "a rule needs"),
        ({**GOOD, **rules(rule("true", "must hold", at=".no.such"))}, "names .no.such"),
        ({**GOOD, **rules(rule("true", "must hold", at="a"))}, "names a,"),
        ({"x-kubernetes-int-or-string": True, "type": "string", "maxLength": 1}, "has no type"),
        ({**STRING, "anyOf": [{"minLength": 1}]}, "anyOf is for"),
        (
            {
                "type": "array",
                "maxItems": 1,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": GOOD,
            },
            "map key a must be required",
        ),
        (
            {"type": "array", "maxItems": 1, "x-kubernetes-list-type": "map", "items": GOOD},
            "goes with",
        ),
        (
            {"type": "array", "maxItems": 1, "x-kubernetes-list-type": "set", "items": GOOD},
            "a set holds scalars",
        ),
        ({"type": "object", "properties": {"metadata": {"type": "object"}}}, "metadata"),
    ],
)
@pytest.mark.parametrize("place", ["property", "item", "value"])
def test_the_lint_finds_what_the_api_server_forbids_wherever_it_stands(bad, says, place):
    wrapped = {
        "property": bad,
        "item": {"type": "array", "maxItems": 1, "items": bad},
        "value": {"type": "object", "maxProperties": 1, "additionalProperties": bad},
    }[place]

    found = list(schema_lint.faults({"type": "object", "properties": {"field": wrapped}}))

    assert any(says in fault and fault.startswith(".field") for fault in found), found


def test_the_lint_has_nothing_to_say_of_a_good_schema():
    good = {**GOOD, **rules(rule("true", "must hold"), rule("true", "must too", at=".a"))}

    assert list(schema_lint.faults({"type": "object", "properties": {"field": good}})) == []


def test_every_pattern_has_a_sentence_of_its_own():
    assert len(text.SENTENCES) == len(text.FORMS)
    assert all("'" not in form.pattern for form in text.FORMS), "CEL quotes patterns with '"
