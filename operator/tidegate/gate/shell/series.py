"""Counters and histograms for what is told of each request and token.

A fifth of the client library's cost, which is 1 to 2 us a call: the gate has one thread, so nothing
is locked. The library still writes them out.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

_Series = TypeVar("_Series")


class Total:
    """The count of one series."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Counter(Collector):
    """One family: a `Total` for each set of labels, made when it is first asked for."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = tuple(labels)
        self._totals: dict[tuple[str, ...], Total] = {}

    def labels(self, *values: str) -> Total:
        """Return the series of these labels."""
        total = self._totals.get(values)
        if total is None:
            total = self._totals[values] = Total()
        return total

    def keep(self, label: str, values: Collection[str]) -> None:
        """Drop the series whose label has none of these values."""
        self._totals = _kept(self._totals, self._labels.index(label), values)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the family, for the client's exposition."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for values, total in self._totals.items():
            family.add_metric(values, total.value)
        yield family


class Bars:
    """The counts of one series."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, as often as it was seen."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times


class Histogram(Collector):
    """One family: a `Bars` for each set of labels, made when it is first asked for."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._written = (*(str(float(bound)) for bound in bounds), "+Inf")
        self._bars: dict[tuple[str, ...], Bars] = {}

    def labels(self, *values: str) -> Bars:
        """Return the series of these labels."""
        bars = self._bars.get(values)
        if bars is None:
            bars = self._bars[values] = Bars(self._bounds)
        return bars

    def keep(self, label: str, values: Collection[str]) -> None:
        """Drop the series whose label has none of these values."""
        self._bars = _kept(self._bars, self._labels.index(label), values)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the family, for the client's exposition."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for values, bars in self._bars.items():
            total = 0
            buckets = []
            for bound, count in zip(self._written, bars.counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            family.add_metric(values, buckets, bars.sum)
        yield family


def _kept(
    series: dict[tuple[str, ...], _Series], index: int, values: Collection[str]
) -> dict[tuple[str, ...], _Series]:
    return {labels: one for labels, one in series.items() if labels[index] in values}
