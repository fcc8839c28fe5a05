"""Clients who arrive at a steady rate in a thread, whatever became of those before them."""

import asyncio
import itertools
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

Client = TypeVar("Client")


@dataclass
class Arrivals(ABC, Generic[Client]):
    """A context manager that sends clients until its end, and waits for what they are due.

    Attributes:
        url: The gate's.
        per_second: Clients that come, at even distances.
    """

    url: str
    per_second: float
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def _opened(self) -> AbstractAsyncContextManager[Client]:
        """Return what all clients share."""

    @abstractmethod
    async def _ask(self, client: Client, number: int) -> None:
        """Ask once, and keep what came of it; `number` counts the clients from 0."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._offer()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send nobody more, and wait for the answers that are due."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    async def _offer(self) -> None:
        begun = time.monotonic()
        tasks = set()
        async with self._opened() as client:
            for number in itertools.count():
                await asyncio.sleep(max(0.0, begun + number / self.per_second - time.monotonic()))
                if self._over.is_set():
                    break
                task = asyncio.create_task(self._ask(client, number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)
