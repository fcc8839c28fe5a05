"""Tasks that outlive their own bugs, and the beat that drives the core and sees stalls."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from tidegate.gate.shell.metrics import Metrics

_LOG = logging.getLogger(__name__)
TICK_SECONDS = 0.05
_STALL_SECONDS = 0.25
_AGAIN_SECONDS = 1.0
_STANDSTILL_SECONDS = 5.0


async def keep(part: str, run: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
    """Run a part of the gate that never ends; a bug in it is told, and it is started again.

    Requests must go on when, say, the scraper has a fault that nobody foresaw.
    """
    while True:
        try:
            await run()
            return
        except Exception:  # a bug; cancellation is none and goes on
            _LOG.exception("a part of the gate failed and is started again", extra={"part": part})
            metrics.faults.labels(part).inc()
        await asyncio.sleep(_AGAIN_SECONDS)


class Beat:
    """Calls `tick(now, wall)` every 50 ms, and counts how long the event loop stood still."""

    def __init__(self, tick: Callable[[float, float], None], metrics: Metrics) -> None:
        self._tick = tick
        self._metrics = metrics
        self._last = time.monotonic()

    def is_alive(self) -> bool:
        """Tell whether the beat goes on."""
        return time.monotonic() - self._last < _STANDSTILL_SECONDS

    async def run(self) -> None:
        """Beat until cancelled."""
        self._last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            late = now - self._last - TICK_SECONDS
            if late > _STALL_SECONDS:
                self._metrics.loop_stalls.inc()
                self._metrics.loop_stalled.inc(late)
            self._last = now
            self._tick(now, time.time())
