"""What one request's course needs of the gate, in one place."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from tidegate.api.gate_config import GateConfig
from tidegate.gate.exchange import Admissions, Ask, Reader, Reading, Refusal
from tidegate.gate.wire.observer import Observer
from tidegate.gate.wire.pods import Address, Pods
from tidegate.gate.wire.sweep import Sweep

Resolve = Callable[[str, int], Address]
"""Finds the gate of another deployment of the namespace, whose Service has this port."""

ReadLarge = Callable[[Reading, bytes], Awaitable[Ask | Refusal]]
"""Reads a large body where it stops nobody."""


async def read_here(reading: Reading, body: bytes) -> Ask | Refusal:
    """Read a body at once, whatever its size."""
    return reading.of(body)


class ExactCounting(Protocol):
    """Who knows better than the estimate how long a very long prompt is."""

    async def of(self, ask: Ask, wiring: "Wiring") -> Ask:
        """Return the request with its exact count, or as it was."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The gate's parts, as a visit uses them.

    Attributes:
        reader: the core's reading.
        admissions: the core's ledger and queue.
        config: what holds now; None before the first configuration.
        observer: who is told.
        resolve: where another deployment's gate is.
        pods: connections to engines.
        sweep: all deadlines.
        read_large: reads bodies from `visit.LARGE_BYTES` on.
        exact: counts very long prompts; without it estimates stay.
        loop: the event loop, whose clock is the gate's.
        wall: seconds since 1970.
    """

    reader: Reader
    admissions: Admissions
    config: Callable[[], GateConfig | None]
    observer: Observer
    resolve: Resolve
    pods: Pods
    sweep: Sweep
    loop: asyncio.AbstractEventLoop
    read_large: ReadLarge = read_here
    exact: ExactCounting | None = None
    wall: Callable[[], float] = time.time
