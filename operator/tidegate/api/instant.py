"""Points in time, as Kubernetes writes them (RFC 3339 with a zone)."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer
from pydantic.json_schema import WithJsonSchema

from tidegate.api import text
from tidegate.api.rules import matches, rule, rules

_PATTERN = re.compile(text.INSTANT.pattern, re.ASCII)
_LONGEST = 35


def parse_instant(value: object) -> datetime:
    """Read a time with its zone; YAML may have read it already.

    Raises:
        ValueError: It is none, it has no zone, or there is no such day.
    """
    if isinstance(value, str) and _PATTERN.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(text.INSTANT.says) from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError(text.INSTANT.says)
    return value


def spell_instant(value: datetime) -> str:
    """Spell a time as Kubernetes does: `2027-01-01T00:00:00Z`."""
    return value.isoformat().replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(spell_instant, return_type=str, when_used="json"),
    WithJsonSchema(
        {  # no format date-time: with it, rules cannot match the pattern
            "type": "string",
            "pattern": text.INSTANT.pattern,
            "maxLength": _LONGEST,
            **rules(
                rule(  # fails for a day that does not exist
                    f"!{matches('self', text.INSTANT.pattern)} || "
                    "timestamp(self) > timestamp('1999-12-30T00:00:00Z')",
                    text.INSTANT.says,
                )
            ),
        }
    ),
]
"""A point in time with its zone, in the years 2000 to 2999."""
