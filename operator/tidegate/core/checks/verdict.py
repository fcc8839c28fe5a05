"""What a check says: a reason, how grave it is, the numbers, and the nearest change that works."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.api.quantities import format_bytes
from tidegate.api.reasons import Reason

Value = str | int | float | bool | None
_BYTES_FIELDS = ("spec.budget.kvCache", "spec.kvCache.offload.cpu")


class Severity(StrEnum):
    """How grave a verdict is, the gravest first.

    Refused is what would not start, or answer wrongly. What is only slow, or sheds load, is warned
    of: nodes come and go, and a deployment that serves must not be stopped by a forecast.
    """

    REFUSE = "refuse"
    WARN = "warn"
    INFORM = "inform"


@dataclass(frozen=True)
class Change:
    """A change of one field, as the user would write it, that was tried and works.

    `value` None removes the field. `effect` says what it brings, as a verb phrase.
    """

    field: str
    value: Value
    effect: str

    def __str__(self) -> str:
        name = self.field.removeprefix("spec.")
        if self.value is None:
            return f"without {name} it {self.effect}"
        return f"{name} {self._spelled()} {self.effect}"

    @property
    def told(self) -> str:
        """How a refusal by the sizing tells the same change."""
        return f"{self.field.rpartition('.')[2]} {self.value} fits"

    def _spelled(self) -> str:
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, int) and self.field not in _BYTES_FIELDS:
            return f"{self.value:,}"
        return str(self.value)


@dataclass(frozen=True)
class Verdict:
    """One finding on a plan; `pool` and `node_class` where it is of one of them only.

    `message` is a sentence with the numbers, without the changes.
    """

    reason: Reason
    severity: Severity
    message: str
    field: str | None = None
    changes: tuple[Change, ...] = ()
    pool: str | None = None
    node_class: str | None = None

    @property
    def text(self) -> str:
        """The message with the changes that it does not tell already."""
        more = (str(change) for change in self.changes if change.told not in self.message)
        return "; ".join((self.message, *more))

    @property
    def line(self) -> str:
        """The whole verdict in one line, for status and logs."""
        where = " on ".join(part for part in (self.pool, self.node_class) if part)
        return f"{self.reason}: {where + ': ' if where else ''}{self.text}"

    def wire(self) -> dict[str, Any]:
        """Return the verdict as a JSON document (docs/reference/cli.md)."""
        return {
            "reason": str(self.reason),
            "severity": str(self.severity),
            "message": self.message,
            "field": self.field,
            "pool": self.pool,
            "nodeClass": self.node_class,
            "changes": [
                {"field": c.field, "value": c.value, "effect": c.effect} for c in self.changes
            ],
        }


def size(count_bytes: int) -> str:
    """Spell a size for a sentence."""
    return format_bytes(count_bytes)


def duration(seconds: float) -> str:
    """Spell a length of time for a sentence, with three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def between(least: float, most: float) -> str:
    """Spell a band of lengths of time."""
    return f"{duration(least)} to {duration(most)}"
