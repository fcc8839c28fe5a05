"""Counters, gauges and histograms in Prometheus' text format. Small and fast, no dependency."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LONGEST_WHOLE_PART = 6  # longer numbers are written with an exponent, as Go does

Labels = tuple[tuple[str, str], ...]


def number(value: float) -> str:
    """Write a sample as the Prometheus client of Python does: `1.0`, `1.5e+07`, `+Inf`."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    whole, _, rest = text.partition(".")
    if value <= 0 or len(whole) <= LONGEST_WHOLE_PART or "e" in text:
        return text
    digits = f"{whole[1:]}{rest}".rstrip("0")
    mantissa = f"{whole[0]}.{digits}" if digits else whole[0]
    return f"{mantissa}e+{len(whole) - 1:02d}"


def escape(text: str) -> str:
    """Escape a label's value."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{escape(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


@dataclass
class Scalar:
    """A counter or a gauge with one value for each set of labels."""

    name: str
    kind: str
    help: str
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Add to the value of a set of labels; adding 0 makes the series."""
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def put(self, labels: Labels, value: float) -> None:
        """Set the value of a set of labels."""
        self.values[labels] = float(value)

    def lines(self) -> list[str]:
        """Return the exposition of all series."""
        return [f"{self.name}{_braces(labels)} {number(v)}" for labels, v in self.values.items()]


@dataclass
class Histogram:
    """Counts of observations by upper bound."""

    name: str
    help: str
    bounds: Sequence[float]
    kind: str = "histogram"
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def touch(self, labels: Labels) -> None:
        """Make the series of a set of labels."""
        self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        self.sums.setdefault(labels, 0.0)

    def observe(self, labels: Labels, value: float) -> None:
        """Count an observation."""
        self.touch(labels)
        self.counts[labels][bisect_left(self.bounds, value)] += 1
        self.sums[labels] += value

    def lines(self) -> list[str]:
        """Return the exposition of all series."""
        lines: list[str] = []
        for labels, counts in self.counts.items():
            total = 0
            for bound, count in zip([*self.bounds, math.inf], counts, strict=True):
                total += count
                lines.append(
                    f"{self.name}_bucket{_braces((*labels, ('le', number(bound))))} {number(total)}"
                )
            lines.append(f"{self.name}_count{_braces(labels)} {number(total)}")
            lines.append(f"{self.name}_sum{_braces(labels)} {number(self.sums[labels])}")
        return lines


Metric = Scalar | Histogram


def expose(metrics: Mapping[str, Metric], created_at: float) -> str:
    """Return all metrics in the text format.

    Args:
        metrics: what to expose.
        created_at: Unix time since which the counters count.
    """
    lines: list[str] = []
    for metric in metrics.values():
        lines += _head(metric.name, metric.kind, metric.help)
        lines += metric.lines()
        if metric.kind != "gauge":
            series = metric.values if isinstance(metric, Scalar) else metric.counts
            name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
            lines += _head(f"{name}_created", "gauge", metric.help)
            lines += [f"{name}_created{_braces(labels)} {number(created_at)}" for labels in series]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
