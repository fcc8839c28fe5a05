"""The real `Gates` port: one bounded HTTP request to a gate's admin port, without proxies."""

import asyncio
import json
from typing import Any

import aiohttp

from tidegate.core.names import GATE_ADMIN_PORT
from tidegate.flow.ports import Configured, Document, ReadFailed, Tried

_SECONDS = 2.0
"""For the whole of one answer: a pass waits for it."""
_TRY_SECONDS = 15.0
"""For a request through both pods of a pair, on engines that are at their first one."""
_MOST_BYTES = 64 * 1024
_LONGEST_ERROR = 500


class PodGates:
    """Gates at their pods' addresses; close it at the end."""

    def __init__(
        self,
        port: int = GATE_ADMIN_PORT,
        seconds: float = _SECONDS,
        try_seconds: float = _TRY_SECONDS,
    ) -> None:
        self._port = port
        self._seconds = seconds
        self._try_seconds = try_seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def configuration(self, pod: Document) -> Configured:
        """Return what a gate says of its configuration.

        Raises:
            ReadFailed: There is no such answer in time, or it does not tell.
        """
        told = await self._ask(pod, "GET", "/configz", None, self._seconds)
        generation, error = told.get("generation"), told.get("error") or ""
        if not isinstance(generation, int | None) or not isinstance(told.get("valid"), bool):
            raise ReadFailed(f"{_named(pod)} does not tell of its configuration")
        if told["valid"] or generation is None:
            return Configured(generation)
        return Configured(generation, _text(error) or "it does not say why")

    async def try_pair(self, pod: Document, revision: str) -> Tried:
        """Have a gate send a small request through a prefill and a decode pod of a revision.

        Raises:
            ReadFailed: The gate cannot be reached, or does not tell.
        """
        asked = {"prefill": revision, "decode": revision}
        told = await self._ask(pod, "POST", "/probe", asked, self._try_seconds)
        if not isinstance(told.get("ok"), bool):
            raise ReadFailed(f"{_named(pod)} does not tell how its request went")
        status = told.get("status")
        error = _text(told.get("error")) or "no answer"
        if not told["ok"] and not told.get("decode"):
            raise ReadFailed(f"{_named(pod)} sent no request: {error}")
        return Tried(
            is_ok=told["ok"],
            prefill=_text(told.get("prefill")),
            decode=_text(told.get("decode")),
            error="" if told["ok"] else f"{f'status {status}: ' if status else ''}{error}",
        )

    async def _ask(
        self, pod: Document, method: str, path: str, body: object, seconds: float
    ) -> dict[str, Any]:
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            raise ReadFailed(f"{_named(pod)} has no address")
        host = f"[{address}]" if ":" in address else address
        try:
            async with asyncio.timeout(seconds):
                text = await self._text(method, f"http://{host}:{self._port}{path}", body)
            document = json.loads(text)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
            raise ReadFailed(f"{_named(pod)}: {type(error).__name__}: {error}") from error
        if not isinstance(document, dict):
            raise ReadFailed(f"{_named(pod)} answers no document")
        return document

    async def _text(self, method: str, url: str, body: object) -> str:
        """Return an answer; one that is too long is cut, and then no document."""
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        async with self._session.request(method, url, json=body, allow_redirects=False) as answer:
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"status {answer.status}")
            read = bytearray()
            async for piece in answer.content.iter_chunked(_MOST_BYTES):
                read += piece
                if len(read) > _MOST_BYTES:
                    break
        return read[:_MOST_BYTES].decode("utf-8", "replace")


def _named(pod: Document) -> str:
    return f"pod {pod['metadata']['name']}"


def _text(value: object) -> str:
    return value[:_LONGEST_ERROR] if isinstance(value, str) else ""
