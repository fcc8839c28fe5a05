"""What gates count, read twice: the increase in between is what happens now.

No data is not zero: a gate that was read once only adds nothing, and where none was read twice
there is no window.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
"""Names and values, in the order of the names."""
Series = tuple[str, Labels]


@dataclass(frozen=True)
class Reading:
    """All samples of one gate at one time.

    Attributes:
        at: When it was read, in seconds of any clock that only goes forward.
        samples: Value by series.
    """

    at: float
    samples: Mapping[Series, float]

    def value(self, name: str) -> float | None:
        """Return the sample that has no labels; None where there is none."""
        return self.samples.get((name, ()))

    def select(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield the labels and value of each series of a family."""
        for (series, labels), value in self.samples.items():
            if series == name:
                yield dict(labels), value


@dataclass(frozen=True)
class Window:
    """One gate, read twice."""

    before: Reading
    after: Reading

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.after.at - self.before.at

    def increases(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield by how much each series of a counter grew; one that was reset began at zero."""
        for (series, labels), value in self.after.samples.items():
            if series == name:
                known = self.before.samples.get((series, labels), 0.0)
                yield dict(labels), value - known if value >= known else value


def windows(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> list[Window]:
    """Pair what was read of each gate."""
    return [
        Window(before[gate], reading)
        for gate, reading in after.items()
        if gate in before and reading.at > before[gate].at
    ]


def rates(found: Iterable[Window], name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the increase in a second of each series of a counter, for each gate."""
    for window in found:
        for labels, grown in window.increases(name):
            yield labels, grown / window.seconds
