"""One OpenTelemetry span for each request, sent as OTLP/HTTP in its JSON form.

The settings are OpenTelemetry's own environment variables. By hand and not by its SDK: one span at
the end of a request needs no context machinery, no thread and no protobuf. What cannot be sent is
dropped and counted; requests never wait for it.
"""

import asyncio
import logging
import os
import random
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from tidegate.gate.shell.telemetry import outcome_of
from tidegate.gate.wire.observer import Finished

_LOG = logging.getLogger(__name__)
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = 1
_SERVER = 2  # SpanKind
_ERROR = 2  # StatusCode
_MOST_WAITING = 4096
_BATCH = 512
_BATCH_SECONDS = 2.0
_SEND_SECONDS = 5.0


@dataclass(frozen=True)
class Exporter:
    """Where spans go, and how many of those that no client has decided on."""

    url: str
    headers: Mapping[str, str]
    service: str
    ratio: float

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Exporter | None":
        """Read OpenTelemetry's variables; None where they name no endpoint."""
        base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
        url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (
            base and base + "/v1/traces"
        )
        if not url:
            return None
        pairs = environment.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")
        headers = {
            key.strip(): value.strip() for key, _, value in (p.partition("=") for p in pairs)
        }
        return cls(
            url=url,
            headers={key: value for key, value in headers.items() if key},
            service=environment.get("OTEL_SERVICE_NAME") or "tidegate-gate",
            ratio=_ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", "")),
        )


class Tracing:
    """Turns what is over into spans and sends them in batches."""

    def __init__(self, exporter: Exporter, dropped: Callable[[int], None]) -> None:
        self._exporter = exporter
        self._dropped = dropped
        self._spans: deque[dict[str, Any]] = deque()

    def finished(self, request: Finished) -> None:
        """A request is over: have its span sent, if its trace is sampled."""
        span = span_of(request, time.time(), self._exporter.ratio)
        if span is None:
            return
        if len(self._spans) >= _MOST_WAITING:
            self._dropped(1)
            return
        self._spans.append(span)

    async def run(self) -> None:
        """Send until cancelled; what is left then is sent at the end."""
        timeout = aiohttp.ClientTimeout(total=_SEND_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            try:
                while True:
                    await asyncio.sleep(_BATCH_SECONDS)
                    await self._send_all(session)
            finally:
                await self._send_all(session)

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        while self._spans:
            await self._send(session)

    async def _send(self, session: aiohttp.ClientSession) -> None:
        batch = [self._spans.popleft() for _ in range(min(_BATCH, len(self._spans)))]
        headers = {**self._exporter.headers, "Content-Type": "application/json"}
        data = orjson.dumps(_document(batch, self._exporter.service))
        try:
            async with session.post(self._exporter.url, data=data, headers=headers) as answer:
                answer.raise_for_status()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._dropped(len(batch))
            _LOG.warning("spans were not taken: %s", error)


def span_of(request: Finished, ended_at: float, ratio: float) -> dict[str, Any] | None:
    """Return the span of a request, None where its trace is not sampled.

    A client that sends `traceparent` has decided; of the others a share of `ratio` is sampled.
    """
    parent = _PARENT.fullmatch(request.traceparent)
    if parent is None and random.random() >= ratio:
        return None
    if parent is not None and not int(parent[3], 16) & _SAMPLED:
        return None
    span: dict[str, Any] = {
        "traceId": parent[1] if parent else os.urandom(16).hex(),
        "spanId": os.urandom(8).hex(),
        "name": f"POST {request.surface}" if request.surface else "request",
        "kind": _SERVER,
        "startTimeUnixNano": str(int((ended_at - request.total_seconds) * 1e9)),
        "endTimeUnixNano": str(int(ended_at * 1e9)),
        "attributes": [
            {"key": key, "value": _value(value)}
            for key, value in _attributes(request).items()
            if value not in (None, "")
        ],
    }
    if parent is not None:
        span["parentSpanId"] = parent[2]
    if request.status >= 500 or request.why is not None:
        span["status"] = {"code": _ERROR, "message": request.why.value if request.why else ""}
    return span


def _attributes(request: Finished) -> dict[str, Any]:
    usage = request.usage
    return {
        "url.path": request.surface,
        "http.response.status_code": request.status,
        "gen_ai.request.model": request.model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens if usage else None,
        "gen_ai.usage.output_tokens": usage.output_tokens if usage else None,
        "tidegate.request_id": request.request_id,
        "tidegate.tenant": request.tenant,
        "tidegate.class": request.priority,
        "tidegate.outcome": outcome_of(request),
        "tidegate.reason": request.why and request.why.value,
        "tidegate.pod": request.pod,
        "tidegate.prefill_pod": request.prefill,
        "tidegate.revision": request.revision,
        "tidegate.shifted_to": request.shifted_to,
        "tidegate.visits": request.visits,
        "tidegate.queued_seconds": request.queued_seconds,
        "tidegate.ttft_seconds": request.ttft_seconds,
    }


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}


def _document(spans: list[dict[str, Any]], service: str) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": _value(service)}]}
    scope = {"scope": {"name": "tidegate.gate"}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _ratio(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 1.0
