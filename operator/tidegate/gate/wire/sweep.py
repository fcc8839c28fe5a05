"""One timer for all deadlines: whoever waits is looked at a few times a second.

A timer object for each chunk would cost more than the chunk. What waits notes times of the
monotonic clock, and the sweep compares them; so a deadline is late by up to `SWEEP_SECONDS`.
"""

import asyncio
from typing import Final, Protocol

SWEEP_SECONDS: Final = 0.1


class Waiting(Protocol):
    """Something with deadlines of its own."""

    def check(self, now: float) -> None:
        """Give up if one has passed."""


class Sweep:
    """Looks at everything that waits, until it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: set[Waiting] = set()
        self._timer = loop.call_later(SWEEP_SECONDS, self._pass)

    def add(self, waiting: Waiting) -> None:
        """Look at it from now on."""
        self._waiting.add(waiting)

    def discard(self, waiting: Waiting) -> None:
        """Look at it no more."""
        self._waiting.discard(waiting)

    def close(self) -> None:
        """Stop."""
        self._timer.cancel()

    def _pass(self) -> None:
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._pass)
        now = self._loop.time()
        for waiting in tuple(self._waiting):
            waiting.check(now)
