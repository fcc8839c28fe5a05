"""Reading what is stored, be it by another version: what this one does not know is left out."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from tidegate.api.wire import Wire

Part = TypeVar("Part", bound=Wire)
_UNKNOWN = "extra_forbidden"


def read(model: type[Part], document: object) -> Part:
    """Return a document without the fields that this version does not know.

    Raises:
        ValidationError: A field that it does know has a value that it cannot read.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        unknown = [fault["loc"] for fault in faults if fault["type"] == _UNKNOWN]
        if not unknown:
            raise
    return model.model_validate(_without(document, unknown))


def read_parts(model: type[Part], document: object) -> Part | None:
    """Return a document also without the parts that this version cannot read; None if none is left.

    A part is a field of the document itself.
    """
    try:
        return read(model, document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        parts = [fault["loc"][:1] for fault in faults]
    try:
        return read(model, _without(document, parts))
    except ValidationError:
        return None


def _without(document: Any, paths: Iterable[Sequence[int | str]]) -> Any:
    """Return a document without the fields at the paths; one that leads nowhere changes nothing."""
    by_head: dict[int | str, list[Sequence[int | str]]] = {}
    for path in paths:
        if path:
            by_head.setdefault(path[0], []).append(path[1:])
    gone = {head for head, rests in by_head.items() if not all(rests)}
    if isinstance(document, dict):
        return {
            key: _without(value, by_head.get(key, ()))
            for key, value in document.items()
            if key not in gone
        }
    if isinstance(document, list):
        return [_without(value, by_head.get(index, ())) for index, value in enumerate(document)]
    return document
