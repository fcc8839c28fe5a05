"""What Prometheus answered, as values: the shape is checked, and nothing of a body is repeated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.core.overload.signal import Unknown

Place = tuple[str, str]
"""Namespace and name of a deployment."""
_MOST_LABEL_CHARACTERS = 253


class Unreadable(Exception):
    """An answer that is no instant vector; the message says where it is off, not what it says."""


@dataclass(frozen=True)
class Row:
    """One figure. `pool`, `pod` and `engine` are empty where it is of more than one of them."""

    place: Place
    stat: str
    value: float
    pool: str = ""
    pod: str = ""
    engine: str = ""


Answer = tuple[Row, ...] | Unknown


@dataclass
class Figures:
    """The figures of one key by their names; `twice` is one that was told more than once."""

    values: dict[str, float] = field(default_factory=dict)
    twice: str = ""

    def __getitem__(self, stat: str) -> float:
        return self.values[stat]

    def get(self, stat: str) -> float | None:
        """Return a figure, None where it was not told."""
        return self.values.get(stat)


def parse(result: object) -> tuple[Row, ...]:
    """Read the `result` of an instant query; rows without a deployment's labels are left out.

    Raises:
        Unreadable: It is not an instant vector.
    """
    if not isinstance(result, list):
        raise Unreadable(f"the result is {_kind(result)}, not a list")
    rows = (_row(entry, number) for number, entry in enumerate(result))
    return tuple(row for row in rows if row is not None)


def by_key(rows: Iterable[Row], *labels: str) -> Mapping[tuple[Place, tuple[str, ...]], Figures]:
    """Put figures together that are of the same deployment and have the same labels."""
    found: dict[tuple[Place, tuple[str, ...]], Figures] = {}
    for row in rows:
        key = row.place, tuple(getattr(row, label) for label in labels)
        figures = found.setdefault(key, Figures())
        if row.stat in figures.values:
            figures.twice = row.stat
        figures.values[row.stat] = row.value
    return found


def _row(entry: object, number: int) -> Row | None:
    labels = entry.get("metric") if isinstance(entry, dict) else None
    pair = entry.get("value") if isinstance(entry, dict) else None
    if not isinstance(labels, dict) or not isinstance(pair, list) or len(pair) != 2:
        raise Unreadable(f"entry {number} of the result has no labels and value")
    try:
        value = float(str(pair[1]))
    except ValueError:
        raise Unreadable(f"the value of entry {number} is no number") from None
    place = _label(labels, "namespace"), _label(labels, "llmdeployment")
    stat = _label(labels, "stat")
    if not (all(place) and stat):
        return None
    return Row(
        place,
        stat,
        value,
        _label(labels, "pool"),
        _label(labels, "pod"),
        _label(labels, "engine"),
    )


def _label(labels: Mapping[object, object], name: str) -> str:
    value = labels.get(name)
    return value if isinstance(value, str) and len(value) <= _MOST_LABEL_CHARACTERS else ""


def _kind(value: object) -> str:
    return "absent" if value is None else f"a JSON {type(value).__name__}"
