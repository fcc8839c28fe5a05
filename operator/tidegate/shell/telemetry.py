"""The operator's own metrics, logs and health."""

import json
import logging
import sys
import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as text_of

_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PASS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


_SLICE = ("namespace", "llmdeployment", "pool", "node_class")


class Metrics:
    """The metrics of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.api_calls = Counter(
            "tidegate_api_calls",
            "Calls to the API server by verb, resource and HTTP status (none: no answer).",
            ["verb", "resource", "status"],
            registry=self.registry,
        )
        self.passes = Counter(
            "tidegate_reconcile_passes",
            "Passes over a deployment by result.",
            ["result"],
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "tidegate_reconcile_seconds",
            "Duration of a pass.",
            registry=self.registry,
            buckets=_PASS_BUCKETS,
        )
        self.ready = Gauge(
            "tidegate_deployment_ready",
            "1 when the deployment's Ready condition is True, else 0.",
            ["namespace", "llmdeployment"],
            registry=self.registry,
        )
        self.rendering_waits = Gauge(
            "tidegate_deployment_rendering_waits",
            "1 while pods run as rendered before; a new revision brings what is rendered now.",
            ["namespace", "llmdeployment"],
            registry=self.registry,
        )
        self.kv_tokens = Gauge(
            "tidegate_deployment_kv_tokens",
            "Tokens that the plan gives to the KV caches of the pods that decode.",
            ["namespace", "llmdeployment"],
            registry=self.registry,
        )
        self.measured_kv_tokens = Gauge(
            "tidegate_measured_kv_tokens",
            "Tokens of one pod's KV cache as an engine of the slice told.",
            _SLICE,
            registry=self.registry,
        )
        self.budget_drift = Gauge(
            "tidegate_budget_drift_ratio",
            "Measured over planned KV tokens of a slice, less 1: -0.05 is 5 % fewer.",
            _SLICE,
            registry=self.registry,
        )
        self.leading = Gauge(
            "tidegate_leading", "1 while this process holds the Lease.", registry=self.registry
        )
        self.queued = Gauge(
            "tidegate_queue_length", "Deployments that wait for a pass.", registry=self.registry
        )

    def called(self, verb: str, resource: str, status: int | None) -> None:
        """Count one call to the API server."""
        self.api_calls.labels(verb, resource, str(status) if status else "none").inc()


class JsonLines(logging.Formatter):
    """One JSON object a line; fields given as `extra` stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in _STANDARD}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def log_to_stderr(level: str) -> None:
    """Send every log line to stderr as JSON; kopf's own chatter only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("kopf", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


async def serve(
    port: int, metrics: Metrics, healthy: Callable[[], bool], ready: Callable[[], bool]
) -> web.AppRunner:
    """Serve /metrics, /healthz and /readyz; the caller cleans the runner up."""

    async def expose(request: web.Request) -> web.Response:
        return web.Response(
            body=text_of(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    def probe(check: Callable[[], bool]) -> Callable[[web.Request], object]:
        async def answer(request: web.Request) -> web.Response:
            good = check()
            return web.Response(text="ok\n" if good else "no\n", status=200 if good else 503)

        return answer

    application = web.Application()
    application.router.add_get("/metrics", expose)
    application.router.add_get("/healthz", probe(healthy))  # type: ignore[arg-type]  # a coroutine
    application.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]  # a coroutine
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    return runner
