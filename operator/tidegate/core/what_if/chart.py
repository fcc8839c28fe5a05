"""What-if curves as geometry: one panel for each tensor parallel, with scales that they share.

Both scales are logarithmic: twice the length is half the requests, so that a curve is a straight
line and a factor is a distance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.what_if.curves import Curve

WIDTH, HEIGHT = 228, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 40, 12, 40
_LABEL_HEIGHT = 14
_UNITS = ((2**20, "Mi"), (2**10, "Ki"))


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it is, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Marker:
    """One point of a curve, with its numbers."""

    x: float
    y: float
    tokens: int
    requests: int


@dataclass(frozen=True)
class Line:
    """One curve; `series` is its KV type's place among all, `label_y` where its name stands."""

    kv_cache_dtype: str
    series: int
    markers: tuple[Marker, ...]
    label_y: float

    @property
    def points(self) -> str:
        """The points as SVG writes them."""
        return " ".join(f"{marker.x:.1f},{marker.y:.1f}" for marker in self.markers)


@dataclass(frozen=True)
class Panel:
    """The curves of one tensor parallel; `absent` says which have none, and why."""

    tensor_parallel: int
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    absent: tuple[str, ...]
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM


@dataclass(frozen=True)
class _Scale:
    """A logarithmic scale from values to places."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def panels(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Return one panel for each tensor parallel, in their order; none where nothing fits at all."""
    points = [point for curve in curves for point in curve.points]
    if not points:
        return ()
    shortest, longest = min(p[0] for p in points), max(p[0] for p in points)
    x = _Scale(shortest, max(longest, shortest * 2), _LEFT, WIDTH - _RIGHT)
    top = 10 ** max(1, math.ceil(math.log10(max(p[1] for p in points))))
    y = _Scale(1, top, HEIGHT - _BOTTOM, _TOP)
    x_ticks = tuple(Tick(x.at(n), tokens(n)) for n in _powers(x.low, x.high, 4))
    y_ticks = tuple(Tick(y.at(n), f"{n:,}") for n in _powers(1, top, 10))
    dtypes = list(dict.fromkeys(curve.kv_cache_dtype for curve in curves))
    sizes = list(dict.fromkeys(curve.tensor_parallel for curve in curves))
    made = []
    for size in sizes:
        of_size = [curve for curve in curves if curve.tensor_parallel == size]
        lines = [_line(c, dtypes.index(c.kv_cache_dtype), x, y) for c in of_size if c.points]
        absent = tuple(_absent(curve) for curve in of_size if not curve.points)
        made.append(Panel(size, x_ticks, y_ticks, _apart(lines), absent))
    return tuple(made)


def tokens(count: int) -> str:
    """Spell a number of tokens in binary thousands where it is a whole number of them."""
    for size, unit in _UNITS:
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return f"{count:,}"


def _powers(low: float, high: float, base: int) -> list[int]:
    """Return the powers between two numbers, seen from the lower one."""
    found, value = [], round(low)
    while value <= high * 1.0001:
        found.append(value)
        value *= base
    return found


def _line(curve: Curve, series: int, x: _Scale, y: _Scale) -> Line:
    markers = tuple(Marker(x.at(n), y.at(count), n, count) for n, count in curve.points)
    return Line(curve.kv_cache_dtype, series, markers, markers[-1].y)


def _absent(curve: Curve) -> str:
    return f"{curve.kv_cache_dtype}: {curve.refusal or 'no room for one request'}"


def _apart(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Move the names of lines that end close together apart: up, in the order of the lines."""
    placed: list[Line] = []
    for line in sorted(lines, key=lambda one: (one.label_y, one.markers[0].y), reverse=True):
        lowest = placed[-1].label_y - _LABEL_HEIGHT if placed else math.inf
        place = min(line.label_y, lowest)
        placed.append(Line(line.kv_cache_dtype, line.series, line.markers, place))
    return tuple(sorted(placed, key=lambda one: one.series))
