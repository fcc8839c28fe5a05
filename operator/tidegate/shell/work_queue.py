"""The queue between events and passes.

One pass at a time for each deployment, many deployments at once, and no event is lost: one that
comes during a pass leads to another pass.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)
_BACKOFF_SECONDS = (1.0, 60.0)
_DOUBLINGS = 10
"""At most: by then the longest delay is reached, and a larger power would overflow."""

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """Runs `work(item)` for each item that is woken; its answer asks to be woken again.

    `work` returns seconds until the next pass, or None for none. What it raises is a bug: logged
    with its trace, and tried again with a growing delay; other items go on.
    """

    def __init__(
        self, work: Callable[[Item], Awaitable[float | None]], concurrency: int = 8
    ) -> None:
        self._work = work
        self._concurrency = concurrency
        self._ready: asyncio.Queue[Item] = asyncio.Queue()
        self._waiting: set[Item] = set()
        self._running: set[Item] = set()
        self._again: set[Item] = set()
        self._timers: dict[Item, asyncio.TimerHandle] = {}
        self._failures: dict[Item, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self, item: Item) -> None:
        """Ask for a pass now; asking again before it starts changes nothing."""
        timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()
        if item in self._running:
            self._again.add(item)
        elif item not in self._waiting:
            self._waiting.add(item)
            self._ready.put_nowait(item)

    def wake_after(self, item: Item, seconds: float) -> None:
        """Ask for a pass later; of two such wishes the earlier one counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(item)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[item] = loop.call_later(seconds, self.wake, item)

    def forget(self, item: Item) -> None:
        """Drop what is remembered of an item that is gone."""
        self._failures.pop(item, None)
        timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            item = await self._ready.get()
            self._waiting.discard(item)
            self._running.add(item)
            try:
                await self._pass(item)
            finally:
                self._running.discard(item)
                if item in self._again:
                    self._again.discard(item)
                    self.wake(item)
            # a pass at rest awaits nothing: without this a full queue would hold up all else, and
            # the Lease would run out
            await asyncio.sleep(0)

    async def _pass(self, item: Item) -> None:
        try:
            seconds = await self._work(item)
        except Exception:  # a bug in one pass must not stop the others
            count = self._failures[item] = self._failures.get(item, 0) + 1
            delay = min(_BACKOFF_SECONDS[0] * 2 ** min(count - 1, _DOUBLINGS), _BACKOFF_SECONDS[1])
            _LOG.exception("pass failed, next try in %.0f s", delay, extra={"item": str(item)})
            self.wake_after(item, delay * (0.5 + random.random() / 2))
        else:
            self._failures.pop(item, None)
            if seconds is not None:
                self.wake_after(item, seconds)
