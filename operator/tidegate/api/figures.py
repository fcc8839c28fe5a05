"""A number and how it was obtained: every figure that the product shows is one of these."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    """How a figure was obtained; ordered from the surest to the least sure."""

    EXACT = "exact"  # follows from the configuration by arithmetic
    MEASURED = "measured"  # read from an engine or a card
    ESTIMATED = "estimated"  # a formula with an error band


_LEAST_SURE = {How.EXACT: 0, How.MEASURED: 1, How.ESTIMATED: 2}


@dataclass(frozen=True)
class Figure:
    """A count of bytes with its band: `low <= bytes <= high`; an exact figure has no width."""

    bytes: int
    low: int
    high: int
    how: How
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse a band that does not hold its own value."""
        if not self.low <= self.bytes <= self.high:
            raise ValueError(f"{self.bytes} is outside of its band {self.low} to {self.high}")

    def __add__(self, other: "Figure") -> "Figure":
        """Add two figures; the sum is as sure as the less sure of them."""
        return Figure(
            self.bytes + other.bytes,
            self.low + other.low,
            self.high + other.high,
            max(self.how, other.how, key=_LEAST_SURE.__getitem__),
        )


def exact(count_bytes: int, source: str = "") -> Figure:
    """Return a figure that follows by arithmetic."""
    return Figure(count_bytes, count_bytes, count_bytes, How.EXACT, source)


def measured(count_bytes: int, source: str = "") -> Figure:
    """Return a figure that was read from an engine or a card."""
    return Figure(count_bytes, count_bytes, count_bytes, How.MEASURED, source)


def estimated(count_bytes: int, low: int, high: int, source: str = "") -> Figure:
    """Return a figure from a formula whose true value is expected between `low` and `high`."""
    return Figure(count_bytes, low, high, How.ESTIMATED, source)


def total(figures: Iterable[Figure]) -> Figure:
    """Add figures up; the sum of none is an exact zero."""
    result = exact(0)
    for figure in figures:
        result = result + figure
    return result
