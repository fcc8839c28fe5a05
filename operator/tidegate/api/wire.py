"""The base of every wire model, and the scalar types that Kubernetes users know."""

import re
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import WithJsonSchema

from tidegate.api import text
from tidegate.api.quantities import (
    LONGEST_DURATION,
    MAX_BYTES,
    MAX_DURATION_SECONDS,
    canonical_quantity,
    format_bytes,
    parse_bytes,
    parse_duration,
    parse_quantity,
    parse_resource,
    spell_bytes,
    spell_duration,
)
from tidegate.api.rules import matches, rule, rules

__all__ = [
    "MAX_BYTES",
    "MAX_DURATION_SECONDS",
    "Bytes",
    "DNSLabel",
    "DNSName",
    "IntOrPercent",
    "LabelKey",
    "LabelValue",
    "Name",
    "Percent",
    "QuantityText",
    "Seconds",
    "SecretKey",
    "ServiceName",
    "Text",
    "WholeSeconds",
    "Wire",
    "canonical_quantity",
    "format_bytes",
    "parse_bytes",
    "parse_duration",
    "parse_quantity",
]


_PERCENTAGE = re.compile(text.PERCENTAGE.pattern, re.ASCII)


class Wire(BaseModel):
    """A frozen part of a document: camelCase on the wire, unknown fields refused.

    Strict, as the API server is: a number in quotes is text, and `yes` is not a count.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        defer_build=True,  # the whole resource is built once, not each part by itself
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        """Leave out what is null, as the API server does; an unknown field stays, to be refused."""
        if not isinstance(value, dict) or None not in value.values():
            return value
        known = set(cls.model_fields) | {field.alias for field in cls.model_fields.values()}
        return {key: item for key, item in value.items() if item is not None or key not in known}

    def wire(self) -> dict[str, Any]:
        """Return the document as the API server stores it: aliases, and no absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def parse_int_or_percent(value: object) -> int | str:
    """Read a count of pods, or a share such as `25%`."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return value
    if isinstance(value, str) and _PERCENTAGE.fullmatch(value):
        return value
    raise ValueError("must be a number from 0 to 1000 or a percentage such as 25%")


def _parse_whole_seconds(value: object) -> float:
    seconds = parse_duration(value)
    if not seconds.is_integer():
        raise ValueError(text.WHOLE_SECONDS.says)
    if seconds == 0:
        raise ValueError("must be from 1s to 24h")
    return seconds


_INT_OR_STRING: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": 32,
}
_SPELLED_SECONDS = PlainSerializer(spell_duration, return_type=str, when_used="json")

Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    Field(ge=1),
    PlainSerializer(spell_bytes, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            **_INT_OR_STRING,
            "pattern": text.SIZE.pattern,
            "minimum": 1,
            "maximum": MAX_BYTES,
            **rules(
                rule(
                    "type(self) == int || !isQuantity(self) || "
                    "(quantity(self).isGreaterThan(quantity('0')) && "
                    "!quantity(self).isGreaterThan(quantity('1Pi')))",
                    "must be from 1 to 1Pi",
                )
            ),
        }
    ),
]
"""A size in bytes, from 1 to 1Pi, written as a Kubernetes quantity."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    _SPELLED_SECONDS,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": text.DURATION.pattern,
            "maxLength": LONGEST_DURATION,
            **rules(
                rule(
                    f"!{matches('self', text.DURATION.pattern)} || "
                    "duration(self) <= duration('24h')",
                    "must be from 0s to 24h",
                )
            ),
        }
    ),
]
"""A length of time, written as a Go duration."""

WholeSeconds = Annotated[
    float,
    BeforeValidator(_parse_whole_seconds),
    _SPELLED_SECONDS,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": text.WHOLE_SECONDS.pattern,
            "maxLength": LONGEST_DURATION,
            **rules(
                rule(
                    f"!{matches('self', text.WHOLE_SECONDS.pattern)} || "
                    "(duration(self) > duration('0s') && duration(self) <= duration('24h'))",
                    "must be from 1s to 24h",
                )
            ),
        }
    ),
]
"""A length of time in whole seconds, at least one, written as a Go duration."""

QuantityText = Annotated[
    str,
    BeforeValidator(parse_resource),
    WithJsonSchema({**_INT_OR_STRING, "pattern": text.QUANTITY.pattern, "minimum": 0}),
]
"""An amount of a pod's resource, kept as text in its canonical spelling."""

IntOrPercent = Annotated[
    int | str,
    BeforeValidator(parse_int_or_percent),
    WithJsonSchema(
        {**_INT_OR_STRING, "pattern": text.PERCENTAGE.pattern, "minimum": 0, "maximum": 1000}
    ),
]
"""A count of pods, or a share of the pool as a percentage."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=text.LINE.pattern)]
"""One line of text without control characters."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=text.NAME.pattern)]
"""One line that the engine gets as an argument of its own: a model, a revision."""

DNSLabel = Annotated[str, StringConstraints(max_length=63, pattern=text.DNS_LABEL.pattern)]
ServiceName = Annotated[str, StringConstraints(max_length=63, pattern=text.SERVICE_NAME.pattern)]
DNSName = Annotated[str, StringConstraints(max_length=253, pattern=text.DNS_NAME.pattern)]
LabelKey = Annotated[str, StringConstraints(max_length=317, pattern=text.LABEL_KEY.pattern)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=text.LABEL_VALUE.pattern)]
SecretKey = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=text.DATA_KEY.pattern)
]
Percent = Annotated[float, Field(ge=0, le=100)]
