"""Every value of the chart in order: its path, its meaning and its default."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tidegate.shell.chart.values import CHART_OWNED, ChartValues


@dataclass(frozen=True)
class ValueField:
    """One value. `entries` are the fields of each entry, where it is a list of objects."""

    path: tuple[str, ...]
    meaning: str
    default: Any
    is_object: bool = False
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The path as `helm --set` takes it."""
        return ".".join(self.path)


def all_fields() -> list[ValueField]:
    """Return every value; an object comes before its own values."""
    defaults = ChartValues().model_dump(mode="json", by_alias=True)
    return list(_walk(ChartValues, defaults, ()))


def _walk(
    model: type[BaseModel], defaults: dict[str, Any], path: tuple[str, ...]
) -> Iterator[ValueField]:
    for field in model.model_fields.values():
        name = str(field.alias)
        if path == ("config",) and name in CHART_OWNED:
            continue
        here, meaning = (*path, name), " ".join((field.description or "").split())
        inner = _model(field.annotation)
        if inner is not None and isinstance(defaults[name], dict):
            yield ValueField(here, meaning, None, is_object=True)
            yield from _walk(inner, defaults[name], here)
        else:
            entries = _entries(inner or _model_of_entries(field))
            yield ValueField(here, meaning, defaults[name], entries=entries)


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is, or may be where it may be null."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _model_of_entries(field: FieldInfo) -> type[BaseModel] | None:
    return next(filter(None, map(_model, get_args(field.annotation))), None)


def _entries(model: type[BaseModel] | None) -> tuple[tuple[str, str], ...]:
    fields = model.model_fields.values() if model is not None else ()
    return tuple((str(f.alias), " ".join((f.description or "").split())) for f in fields)
