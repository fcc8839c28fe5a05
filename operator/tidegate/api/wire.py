"""The base of every wire model, and the scalar types that Kubernetes users know."""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import WithJsonSchema

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"^([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)([eE][+-]?[0-9]{1,2})?([A-Za-z]*)$"
)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
MAX_BYTES = 2**50
MAX_DURATION_SECONDS = 24 * 3600


class Wire(BaseModel):
    """A frozen part of a document: camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    def wire(self) -> dict[str, Any]:
        """Return the document as the API server stores it: aliases, and no absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def parse_quantity(text: str | int | float) -> Decimal:
    """Read a Kubernetes quantity (`40Gi`, `500m`, `1e3`) as a number of base units."""
    match = _QUANTITY.match(str(text))
    if match is None:
        raise ValueError("must be a quantity such as 40Gi or 500m")
    number, exponent, suffix = match.groups()
    if exponent and suffix:
        raise ValueError("must have an exponent or a suffix, not both")
    try:
        value = Decimal(number + (exponent or ""))
    except InvalidOperation as error:  # pragma: no cover - the pattern admits numbers only
        raise ValueError("must be a number") from error
    if suffix in _BINARY:
        return value * _BINARY[suffix]
    if suffix in _DECIMAL:
        return value.scaleb(_DECIMAL[suffix])
    raise ValueError(f"has the unknown suffix {suffix!r}; use one of Ki Mi Gi Ti, k M G T, m")


def parse_bytes(value: object) -> int:
    """Read a quantity as whole bytes, from 0 to 1 Pi."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a quantity such as 40Gi")
    number = parse_quantity(value)
    if number != number.to_integral_value():
        raise ValueError("must be a whole number of bytes")
    if not 0 <= number <= MAX_BYTES:
        raise ValueError("must be from 0 to 1Pi")
    return int(number)


def canonical_quantity(value: str | int) -> str:
    """Spell a quantity as the API server stores it, so that comparing strings finds no difference.

    The server keeps the family of the suffix (binary, decimal, exponent) and takes the largest
    suffix that leaves a whole number.
    """
    text = str(value)
    number = parse_quantity(text)
    if any(text.endswith(suffix) for suffix in _BINARY):
        for suffix, factor in reversed(_BINARY.items()):
            if number and number % factor == 0:
                return f"{int(number / factor)}{suffix}"
        text = str(number)
    for suffix, power in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
        scaled = number.scaleb(-power)
        if number and scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return "0"


def format_bytes(count: int) -> str:
    """Spell bytes for people: `49.9Gi`, with one decimal above 1 Ki, exact below."""
    for suffix, factor in reversed(_BINARY.items()):
        if abs(count) >= factor:
            return f"{count / factor:.1f}{suffix}"
    return str(count)


def parse_duration(value: object) -> float:
    """Read a Go duration (`1h30m`, `250ms`) as seconds, from 0 to 24 hours."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and value and _DURATION.sub("", value) == "":
        seconds = sum(float(n) * _DURATION_SECONDS[u] for n, u in _DURATION.findall(value))
    else:
        raise ValueError("must be a duration such as 30s, 5m or 250ms")
    if not 0 <= seconds <= MAX_DURATION_SECONDS:
        raise ValueError("must be from 0s to 24h")
    return seconds


def _parse_int_or_percent(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,2}%|100%", value):
        return value
    raise ValueError("must be a number from 0 to 1000 or a percentage such as 25%")


_INT_OR_STRING: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}

Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema(
        {**_INT_OR_STRING, "pattern": r"^[0-9]+(\.[0-9]+)?(e[0-9]{1,2}|[KMGTP]i|[kMGTP])?$"}
    ),
]
"""A size in bytes, written as a Kubernetes quantity."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda seconds: f"{seconds:g}s", return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$", "maxLength": 32}
    ),
]
"""A length of time, written as a Go duration."""

QuantityText = Annotated[
    str,
    BeforeValidator(
        lambda value: canonical_quantity(value) if not isinstance(value, bool) else value
    ),
    WithJsonSchema({**_INT_OR_STRING, "maxLength": 32}),
]
"""A quantity of a pod's resource, kept as text in its canonical spelling."""

IntOrPercent = Annotated[
    int | str,
    BeforeValidator(_parse_int_or_percent),
    WithJsonSchema({**_INT_OR_STRING, "pattern": "^([0-9]{1,2}|100)%$"}),
]
"""A count of pods, or a share of the pool as a percentage."""

Text = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")
]
"""One line of text without control characters."""

DNSLabel = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
DNSName = Annotated[
    str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
LabelKey = Annotated[
    str,
    StringConstraints(
        max_length=317,
        pattern=r"^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
LabelValue = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"),
]
SecretKey = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
]
Percent = Annotated[float, Field(ge=0, le=100)]
