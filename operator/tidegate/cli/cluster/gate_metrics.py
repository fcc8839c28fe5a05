"""The gates' `/metrics`, read as the values that `core.levers` reckons with."""

import asyncio
import time
from collections.abc import Iterable

from tidegate.cli.cluster.gate_reach import GateReach, GateSilent
from tidegate.core.levers.samples import Reading, Series

Readings = dict[str, Reading]
"""By the name of the gate's pod; those that do not answer are not in it."""


async def read(reach: GateReach, pods: Iterable[str]) -> Readings:
    """Read every gate once, all at the same time."""
    names = list(pods)
    found = await asyncio.gather(*(_one(reach, pod) for pod in names))
    return {pod: reading for pod, reading in zip(names, found, strict=True) if reading is not None}


async def _one(reach: GateReach, pod: str) -> Reading | None:
    try:
        text = await reach.read(pod, "/metrics")
        return Reading(time.monotonic(), parse(text))
    except (GateSilent, ValueError):
        return None


def parse(text: str) -> dict[Series, float]:
    """Read an exposition.

    Raises:
        ValueError: It is none.
    """
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
