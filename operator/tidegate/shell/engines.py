"""The real `Engines` port: one bounded HTTP request to a pod, without proxies or redirects."""

import asyncio

import aiohttp

from tidegate.core.names import ENGINE_PORT
from tidegate.facts import cache_config
from tidegate.facts.cache_config import CacheConfig
from tidegate.flow.ports import Document, ReadFailed

_SECONDS = 3.0
"""For the whole of one answer: a pass waits for it."""
_MOST_BYTES = 4 * 2**20
_PIECE_BYTES = 64 * 1024


class PodEngines:
    """Engines at their pods' addresses; close it at the end."""

    def __init__(self, port: int = ENGINE_PORT, seconds: float = _SECONDS) -> None:
        self._port = port
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def cache_config(self, pod: Document) -> CacheConfig:
        """Return what a pod's engine says of its KV cache.

        Raises:
            ReadFailed: There is no such answer in time, or it does not tell.
        """
        name = pod["metadata"]["name"]
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            raise ReadFailed(f"pod {name} has no address")
        host = f"[{address}]" if ":" in address else address
        try:
            async with asyncio.timeout(self._seconds):
                text = await self._text(f"http://{host}:{self._port}/metrics")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ReadFailed(f"pod {name}: {type(error).__name__}: {error}") from error
        told = cache_config.read(text)
        if told is None:
            raise ReadFailed(f"pod {name}: its metrics do not tell of a KV cache")
        return told

    async def _text(self, url: str) -> str:
        """Return the start of a page, as much as may be read of it."""
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"status {answer.status}")
            read = bytearray()
            async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                read += piece
                if len(read) >= _MOST_BYTES:
                    break
        return read[:_MOST_BYTES].decode("utf-8", "replace")
