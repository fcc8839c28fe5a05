"""One timer for all deadlines: whoever waits is looked at a few times a second.

A timer object for each chunk would cost more than the chunk. What waits notes times of the
monotonic clock, and the sweep compares them; so a deadline is late by up to `SWEEP_SECONDS`. It
looks at a part of them at a time: all of a thousand streams take some milliseconds, for which a
token would have to wait.
"""

import asyncio
from typing import Final, Protocol

SWEEP_SECONDS: Final = 0.175
"""Between two looks at the same waiting."""
_PARTS: Final = 7
"""A prime: the hash of an object is its address, which goes in steps of powers of two."""


class Waiting(Protocol):
    """Something with deadlines of its own."""

    def check(self, now: float) -> None:
        """Give up if one has passed."""


class Sweep:
    """Looks at everything that waits, until it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parts: list[set[Waiting]] = [set() for _ in range(_PARTS)]
        self._turn = 0
        self._timer = self._next()

    def add(self, waiting: Waiting) -> None:
        """Look at it from now on."""
        self._parts[hash(waiting) % _PARTS].add(waiting)

    def discard(self, waiting: Waiting) -> None:
        """Look at it no more."""
        self._parts[hash(waiting) % _PARTS].discard(waiting)

    def close(self) -> None:
        """Stop."""
        self._timer.cancel()

    def _next(self) -> asyncio.TimerHandle:
        return self._loop.call_later(SWEEP_SECONDS / _PARTS, self._pass)

    def _pass(self) -> None:
        self._timer = self._next()
        self._turn = (self._turn + 1) % _PARTS
        now = self._loop.time()
        for waiting in tuple(self._parts[self._turn]):
            waiting.check(now)
