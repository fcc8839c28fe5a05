"""A small file that others replace: read again and again, and told when it has changed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

_LOG = logging.getLogger(__name__)
_INTERVAL_SECONDS = 0.5
_MOST_BYTES = 16 * 2**20


Changed = Callable[[bytes], Awaitable[None]]


class FileWatch:
    """Tells `changed` of the bytes of a file, at the start and after each change.

    The bytes are compared and not the times: a mounted Secret is swapped by a link, and a file
    system may be coarse. A file that is gone or cannot be read is told in the log; what was read
    last stands.
    """

    def __init__(self, path: Path, changed: Changed) -> None:
        self._path = path
        self._changed = changed
        self._held: bytes | None = None
        self._error: str | None = None

    async def run(self) -> None:
        """Look at the file until cancelled; reads happen in a thread."""
        while True:
            await self.look()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def look(self) -> None:
        """Look once."""
        try:
            data = await asyncio.to_thread(self._read)
        except OSError as error:
            if str(error) != self._error:
                _LOG.warning("%s cannot be read: %s", self._path, error.strerror)
            self._error = str(error)
            return
        self._error = None
        if data != self._held:
            self._held = data
            await self._changed(data)

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise OSError(0, f"it is larger than {_MOST_BYTES} bytes", str(self._path))
        return data
