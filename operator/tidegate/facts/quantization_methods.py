"""Which GPUs run weights that are quantised by a method, and from which on natively.

`data/quantization.json` maps a method, as config.json or --quantization names it, to the `least`
compute capability that the engine starts on, the `native` one from which on its kernels compute in
the type itself (null: they never do, or it depends on the checkpoint), and what happens
`otherwise` to the weights.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate.facts import package_data

Capability = tuple[int, int]


@dataclass(frozen=True)
class Method:
    """A way to quantise weights, by the compute capabilities that it asks for."""

    name: str
    least: Capability
    native: Capability | None
    otherwise: str | None


def find(name: str) -> Method | None:
    """Return what is known of a method; None for one that the data lacks."""
    row = _rows().get(name)
    if row is None:
        return None
    native = _capability(row["native"]) if row["native"] else None
    return Method(name, _capability(row["least"]), native, row["otherwise"])


def _capability(text: str) -> Capability:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = package_data.load("quantization.json")
    return rows
