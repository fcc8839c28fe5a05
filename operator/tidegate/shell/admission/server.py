"""The HTTPS server of the webhook: bounded bodies, a deadline, and an answer to anything."""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from tidegate.shell.admission import verdict, wire
from tidegate.shell.admission.metrics import OTHER, AdmissionMetrics
from tidegate.shell.admission.verdict import Answer, Reviewer
from tidegate.shell.admission.wire import Malformed, Request

_LOG = logging.getLogger(__name__)
MOST_BYTES = 5 * 1024 * 1024
"""Of a body. An update has the object twice: 1.5 MiB as stored, and 3 MiB is all that the API
server takes. What is larger is no review; what is smaller must get an answer."""
DEADLINE_SECONDS = 4.0
"""For a review; the API server itself waits for `timeoutSeconds` (5), and says less."""
MOST_AT_ONCE = 32
"""Reviews whose bodies are in memory; others wait, within the same deadline."""
_IDLE_SECONDS = 120.0
"""Longer than API servers keep a connection that is idle (90 s), so that they close it, not we."""


class Server:
    """Serves /mutate and /validate."""

    def __init__(
        self,
        reviewer: Reviewer,
        metrics: AdmissionMetrics,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._reviewer = reviewer
        self._metrics = metrics
        self._deadline_seconds = deadline_seconds
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def start(
        self, port: int, tls: ssl.SSLContext | None, host: str | None = None
    ) -> web.AppRunner:
        """Listen on every address, or on one; the caller cleans the runner up.

        Raises:
            OSError: The port cannot be had.
        """
        application = web.Application(client_max_size=MOST_BYTES)
        application.router.add_post("/mutate", self._mutate)
        application.router.add_post("/validate", self._validate)
        runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=self._deadline_seconds,
        )
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        return runner

    def close(self) -> None:
        """Judge nothing more; to be called when no connection is left."""
        self._reviewer.judge.close()

    async def _mutate(self, http: web.Request) -> web.Response:
        async def answer(request: Request) -> Answer:
            return self._reviewer.mutate(request)

        return await self._answered(http, answer, counts=False)

    async def _validate(self, http: web.Request) -> web.Response:
        return await self._answered(http, self._reviewer.validate, counts=True)

    async def _answered(
        self, http: web.Request, work: Callable[[Request], Awaitable[Answer]], *, counts: bool
    ) -> web.Response:
        begun = time.monotonic()
        request: Request | None = None
        try:
            async with asyncio.timeout(self._deadline_seconds), self._room:
                request = wire.read(await http.read())
                answer = await work(request)
        except web.HTTPRequestEntityTooLarge:
            return _refused(413, f"an AdmissionReview of over {MOST_BYTES} bytes is not read")
        except Malformed as error:
            return _refused(400, str(error))
        except TimeoutError:
            if request is None:
                return _refused(408, f"no whole body came in {self._deadline_seconds:g} s")
            late = f"no verdict within {self._deadline_seconds:g} s; try again"
            answer = verdict.failed(request, late)
        except (web.RequestPayloadError, OSError) as error:
            return _refused(400, f"the body broke off: {error}")
        except Exception:  # a bug: not let in, logged, and the server goes on
            _LOG.exception("a review failed")
            if request is None:
                self._metrics.admissions.labels(OTHER, verdict.ERROR, "").inc()
                return _refused(500, "the review failed; the operator's log says why")
            said = "the review failed, which is a fault of tidegate; the operator's log says why"
            answer = verdict.failed(request, said)
        self._metrics.seconds.labels(http.path).observe(time.monotonic() - begun)
        if counts or answer.verdict == verdict.ERROR:
            self._count(request, answer)
        return web.Response(body=answer.body, content_type="application/json")

    def _count(self, request: Request, answer: Answer) -> None:
        operation = request.operation if request.is_reviewed else OTHER
        self._metrics.admissions.labels(operation, answer.verdict, answer.reason).inc()


def _refused(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=f"{message}\n")
