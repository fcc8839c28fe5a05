"""Signals to stop: the first asks for a good end, the second for one at once."""

import asyncio
import signal


class Stopping:
    """Hears SIGTERM and SIGINT in the running loop."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._hear)

    def _hear(self) -> None:
        if self._asked.is_set():
            self._at_once.set()
        self._asked.set()

    async def asked(self) -> None:
        """Wait for the first signal."""
        await self._asked.wait()

    async def at_once(self) -> None:
        """Wait for the second signal."""
        await self._at_once.wait()

    async def at_once_within(self, seconds: float) -> bool:
        """Wait so long, or until the second signal; tell whether it came."""
        try:
            async with asyncio.timeout(seconds):
                await self._at_once.wait()
        except TimeoutError:
            return False
        return True
