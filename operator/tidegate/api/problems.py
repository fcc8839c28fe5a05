"""From pydantic's errors to problems: the field as the user writes it, and what to write."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.api import text
from tidegate.errors import Problem

_KEY = "[key]"
_LONGEST_STEP = 80
_WANTED = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text; put it in quotes",
    "string_unicode": "must be valid Unicode text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of fields to values",
    "model_attributes_type": "must be a mapping of fields to values",
    "missing": "required field is missing",
}
_BOUNDS = {
    "greater_than": ("must be more than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "string_too_short": ("must not be empty", "min_length"),
    "too_long": ("must have at most {} entries", "max_length"),
}


def problems(
    error: ValidationError, model: type[BaseModel], prefix: tuple[str, ...] = ()
) -> list[Problem]:
    """Return one problem for each fault that pydantic found in a document of `model`.

    `prefix` is where the document stands, for the paths: `("spec",)` for a spec alone.
    """
    return [
        Problem(path((*prefix, *item["loc"])), _sentence(item, model))
        for item in error.errors(include_url=False)
    ]


def path(location: Iterable[str | int]) -> str:
    """Spell a location as a path: `spec.engine.env[2].name`, `spec...nodeSelector['a/b']`."""
    spelled = ""
    for step in location:
        if isinstance(step, int):
            spelled += f"[{step}]"
        elif step != _KEY:
            spelled += _step(step, is_first=not spelled)
    return spelled or "document"


def _step(step: str, *, is_first: bool) -> str:
    """Spell one step; plain where that cannot mislead, else quoted."""
    is_short = step.isascii() and step.isprintable() and len(step) <= _LONGEST_STEP
    if is_short and is_first:
        return step
    return f".{step}" if is_short and step.isidentifier() else f"[{_shown(step)}]"


def _shown(value: str) -> str:
    """Show a stranger's text: quoted, escaped and cut."""
    cut = value if len(value) <= _LONGEST_STEP else value[:_LONGEST_STEP] + "..."
    return ascii(cut)


def _sentence(item: ErrorDetails, model: type[BaseModel]) -> str:
    subject = "the key " if item["loc"] and item["loc"][-1] == _KEY else ""
    return subject + _SENTENCES.get(item["type"], _plain)(item, model)


def _plain(item: ErrorDetails, _: type[BaseModel]) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind in _WANTED:
        return _WANTED[kind]
    if kind in _BOUNDS:
        sentence, bound = _BOUNDS[kind]
        return sentence.format(context[bound])
    message = item["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _number(item: ErrorDetails, _: type[BaseModel]) -> str:
    wanted, given = _WANTED[item["type"]], item["input"]
    if isinstance(given, str):
        return f"{wanted}, without quotes or a unit"
    if isinstance(given, bool):
        return f"{wanted}, not true or false"
    return wanted


def _unknown(item: ErrorDetails, model: type[BaseModel]) -> str:
    written = str(item["loc"][-1])
    known = _fields_at(model, item["loc"][:-1])
    close = difflib.get_close_matches(written.replace("_", "").lower(), known, n=1)
    if close:
        return f"unknown field; did you mean {known[close[0]]}?"
    return f"unknown field; remove it, or use one of {', '.join(known.values())}"


def _choice(item: ErrorDetails, _: type[BaseModel]) -> str:
    return f"must be {item.get('ctx', {})['expected']}"


def _pattern(item: ErrorDetails, _: type[BaseModel]) -> str:
    pattern = item.get("ctx", {})["pattern"]
    return text.SENTENCES.get(pattern, f"must match {pattern}")


_SENTENCES: dict[str, Callable[[ErrorDetails, type[BaseModel]], str]] = {
    "int_type": _number,
    "float_type": _number,
    "extra_forbidden": _unknown,
    "literal_error": _choice,
    "string_pattern_mismatch": _pattern,
}


def _fields_at(model: type[BaseModel], location: Iterable[str | int]) -> dict[str, str]:
    """Return the names of the fields at a location, by their lower-case spelling."""
    for step in location:
        found = [f for f in model.model_fields.values() if f.alias == step]
        if found:
            model = next(_models(found[0].annotation), model)
    return {(f.alias or "").lower(): f.alias or "" for f in model.model_fields.values()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside of an annotation such as `list[Toleration] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
