"""An API server that answers what a test tells it to: for faults that a real one shows seldom."""

import asyncio
import json
from collections.abc import Callable

from aiohttp import web


class ScriptedApi:
    """Lists `items` (after `earlier` lists); each watch gets the next of `watches`, then silence.

    A watch is a list of lines (documents or raw bytes), or a status to refuse it with.
    """

    def __init__(self) -> None:
        self.items: list[dict] = []
        self.version = "10"
        self.earlier: list[tuple[str, list[dict]]] = []
        self.watches: list[list[object] | int] = []
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str | None] = []
        self.list_status = 200
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listen on loopback."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be away."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization"))
        if "watch" not in request.query:
            if self.list_status != 200:
                return web.json_response({"message": "no"}, status=self.list_status)
            version, items = self.earlier.pop(0) if self.earlier else (self.version, self.items)
            return web.json_response({"metadata": {"resourceVersion": version}, "items": items})
        script = self.watches.pop(0) if self.watches else None
        if isinstance(script, int):
            return web.json_response({"message": "no", "code": script}, status=script)
        response = web.StreamResponse()
        await response.prepare(request)
        for line in script or ():
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            await response.write(data)
        if script is None:
            await asyncio.sleep(60)
        return response


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
