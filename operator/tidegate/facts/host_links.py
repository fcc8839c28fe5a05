"""How fast a GPU reads the memory of its host: what KV that was offloaded comes back over.

`data/host_links.json` is a list of rows, the first that matches counts: by `names` that a card's
name begins with, or by `computeCapabilityMajor`. `bytesPerSecond` is in one direction, by the
link's own rate; copies reach less of it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate.facts import package_data
from tidegate.facts.gpus import Gpu


@dataclass(frozen=True)
class HostLink:
    """The link between a GPU and its host; `bytes_per_second` in one direction, at most."""

    name: str
    bytes_per_second: int
    source: str


def of(gpu: Gpu) -> HostLink | None:
    """Return the link of a card; None where it is not known."""
    for row in _rows():
        if _matches(row, gpu):
            return HostLink(row["link"], row["bytesPerSecond"], row["source"])
    return None


def _matches(row: dict[str, Any], gpu: Gpu) -> bool:
    if "names" in row:
        return gpu.name.startswith(tuple(row["names"]))
    if gpu.compute_capability is None or gpu.name.startswith("GB10"):
        return False  # GB10 has one memory for both
    major: int = row["computeCapabilityMajor"]
    return gpu.compute_capability[0] == major


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = package_data.load("host_links.json")
    return rows
