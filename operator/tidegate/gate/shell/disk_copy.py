"""A copy on local disk of what the API server last told: a restarted gate serves from it."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 64 * 2**20


class DiskCopy:
    """One file that is either whole or as it was before; writes happen in a thread.

    A disk that fails is told in the log and costs nothing else: the gate goes on without a copy.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: bytes | None = None
        self._wanted: bytes | None = None
        self._wake = asyncio.Event()

    def read(self) -> bytes | None:
        """Return what was kept, None where there is nothing that can be read."""
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOG.warning("%s cannot be read: %s", self._path, error)
            return None
        self._written = data
        return data

    def keep(self, data: bytes) -> None:
        """Have these bytes written soon; the last ones win."""
        self._wanted = data
        self._wake.set()

    async def run(self) -> None:
        """Write what is to be kept, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            data = self._wanted
            if data is None or data == self._written:
                continue
            try:
                await asyncio.to_thread(_replace, self._path, data)
                self._written = data
            except OSError as error:
                _LOG.warning("%s cannot be written: %s", self._path, error)


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old or the new one."""
    beside = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    with contextlib.suppress(OSError):  # some file systems do not sync folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
