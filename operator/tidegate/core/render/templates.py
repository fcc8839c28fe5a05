"""Fills templates: values go in as data, documents come out.

A template writes each value by `| tojson`, and what that writes is YAML for any value: a text with
quotes, line breaks, braces or `yes` comes back as the same text.
"""

import json
import re
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined

from tidegate import assets

_UNREADABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML folds or refuses in a quoted text; JSON would leave them as they are."""
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def fill(template: str, values: dict[str, Any]) -> dict[str, Any]:
    """Fill a template and read the one document that it makes.

    Raises:
        jinja2.UndefinedError: The template names a value that is not given.
    """
    filled = _environment().get_template(template).render(values)
    document: dict[str, Any] = yaml.load(filled, Loader=_Loader)
    return document


def quoted(value: Any, **options: Any) -> str:
    """Write a value as JSON that a YAML reader takes for the same value.

    Characters beyond the basic plane stay as they are: JSON's own escape of them, two surrogates,
    means something else in YAML.
    """
    written = json.dumps(value, ensure_ascii=False, default=_no_value, **options)
    return _UNREADABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def _no_value(value: object) -> None:
    """Refuse what JSON does not have: above all a value that was not given, by its name."""
    raise TypeError(f"{value} ({type(value).__name__}) is no value of a document")


def _shipped(template: str) -> str:
    """Read a template that is part of the package; it is read once, as the catalogues are."""
    return (assets.templates() / template).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_shipped),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the documents are YAML; `tojson` quotes
    )
    environment.globals.clear()  # `namespace` among them would stand in for a missing value
    environment.policies["json.dumps_function"] = quoted
    return environment
