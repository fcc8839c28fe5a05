"""The second port: metrics, health, what the gate knows, and probes of pairs.

Only the kubelet, the operator and Prometheus reach it, by NetworkPolicy.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry
from prometheus_client import generate_latest as text_of

from tidegate.gate.shell.configuration import Told

_MOST_BYTES = 16 * 1024
_BACKLOG = 32
_GOODBYE_SECONDS = 1.0

Probe = Callable[[str, str], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Answers:
    """Where the admin port gets its answers. `pods` is the document of `/podz`."""

    registry: CollectorRegistry
    is_alive: Callable[[], bool]
    why_not_ready: Callable[[], str | None]
    told: Callable[[], Told]
    pods: Callable[[], dict[str, Any]]
    probe: Probe


async def serve(answers: Answers, sockets: Iterable[socket.socket]) -> web.AppRunner:
    """Serve on bound sockets; the caller cleans the runner up."""
    application = web.Application(client_max_size=_MOST_BYTES)
    handlers = _Handlers(answers)
    application.router.add_get("/metrics", handlers.metrics)
    application.router.add_get("/healthz", handlers.healthz)
    application.router.add_get("/readyz", handlers.readyz)
    application.router.add_get("/configz", handlers.configz)
    application.router.add_get("/podz", handlers.podz)
    application.router.add_post("/probe", handlers.probe)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_GOODBYE_SECONDS)
    await runner.setup()
    for bound in sockets:
        await web.SockSite(runner, bound, backlog=_BACKLOG).start()
    return runner


class _Handlers:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._gate = socket.gethostname()

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=text_of(self._answers.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def healthz(self, request: web.Request) -> web.Response:
        return _verdict(None if self._answers.is_alive() else "the beat stands still")

    async def readyz(self, request: web.Request) -> web.Response:
        return _verdict(self._answers.why_not_ready())

    async def configz(self, request: web.Request) -> web.Response:
        told = self._answers.told()
        return _json(
            {
                "gate": self._gate,
                "generation": told.generation,
                "valid": told.is_valid,
                "error": told.error,
                "source": told.source,
            }
        )

    async def podz(self, request: web.Request) -> web.Response:
        return _json({"gate": self._gate, **self._answers.pods()})

    async def probe(self, request: web.Request) -> web.Response:
        """Send one request through a pair: `{"prefill": REVISION, "decode": REVISION}`."""
        try:
            asked = orjson.loads(await request.read())
            prefill, decode = asked["prefill"], asked["decode"]
        except (ValueError, KeyError, TypeError):
            return _json({"error": 'send {"prefill": REVISION, "decode": REVISION}'}, 400)
        if not isinstance(prefill, str) or not isinstance(decode, str):
            return _json({"error": "prefill and decode must be names of revisions"}, 400)
        return _json(await self._answers.probe(prefill, decode))


def _verdict(why_not: str | None) -> web.Response:
    return web.Response(text=f"{why_not or 'ok'}\n", status=503 if why_not else 200)


def _json(document: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")
