"""Spans in OpenTelemetry's JSON form, for traces that are sampled."""

import asyncio

import pytest
from aiohttp import web
from tests.unit.gate.shell.finished import finished
from tests.unit.gate.shell.scripted_api import until

from tidegate.gate.exchange import Why
from tidegate.gate.shell import tracing
from tidegate.gate.shell.tracing import Exporter, Tracing, span_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def attributes(span):
    return {entry["key"]: entry["value"] for entry in span["attributes"]}


def test_a_span_is_the_child_of_the_client_s_and_tells_of_the_request():
    span = span_of(finished(traceparent=f"00-{TRACE}-{PARENT}-01"), 1000.0, 0.0)

    assert (span["traceId"], span["parentSpanId"]) == (TRACE, PARENT)
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == 1_500_000_000
    told = attributes(span)
    assert told["gen_ai.request.model"] == {"stringValue": "qwen"}
    assert told["http.response.status_code"] == {"intValue": "200"}
    assert told["tidegate.ttft_seconds"] == {"doubleValue": 0.2}
    assert "tidegate.reason" not in told
    assert "status" not in span


@pytest.mark.parametrize(
    ("traceparent", "ratio", "is_told"),
    [
        (f"00-{TRACE}-{PARENT}-01", 0.0, True),
        (f"00-{TRACE}-{PARENT}-00", 1.0, False),
        ("", 1.0, True),
        ("", 0.0, False),
        ("nonsense", 1.0, True),
        ("nonsense", 0.0, False),
    ],
)
def test_the_client_decides_and_else_the_ratio(traceparent, ratio, is_told):
    assert (span_of(finished(traceparent=traceparent), 1000.0, ratio) is not None) == is_told


def test_a_request_that_failed_has_the_reason_as_its_status():
    span = span_of(finished(status=429, why=Why.KV_BUDGET), 1000.0, 1.0)

    assert span["status"] == {"code": 2, "message": "kv-budget"}


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "http://c/x"),
    ],
)
def test_the_environment_names_the_collector(environment, url):
    exporter = Exporter.of_environment(environment)
    assert (exporter and exporter.url) == url


def test_headers_and_ratio_come_from_the_environment_and_nonsense_is_passed_over():
    exporter = Exporter.of_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
            "OTEL_EXPORTER_OTLP_HEADERS": "a=1, b=2=3,,c",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
        }
    )
    assert (exporter.headers, exporter.ratio) == ({"a": "1", "b": "2=3", "c": ""}, 0.25)


async def test_spans_are_sent_in_batches_and_what_is_not_taken_is_counted(monkeypatch):
    monkeypatch.setattr(tracing, "_BATCH_SECONDS", 0.05)
    taken, statuses, dropped = [], [200, 500], []

    async def collect(request):
        taken.append(await request.json())
        return web.Response(status=statuses[len(taken) - 1])

    application = web.Application()
    application.router.add_post("/v1/traces", collect)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    made = Tracing(Exporter(url, {}, "gate", 1.0), dropped.append)
    task = asyncio.create_task(made.run())
    try:
        made.finished(finished())
        made.finished(finished())
        await until(lambda: taken)
        made.finished(finished())
        await until(lambda: dropped)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.cleanup()

    [resource] = taken[0]["resourceSpans"]
    assert resource["resource"]["attributes"][0]["value"] == {"stringValue": "gate"}
    assert len(resource["scopeSpans"][0]["spans"]) == 2
    assert dropped == [1]


async def test_memory_is_bounded_while_no_collector_answers():
    dropped = []
    made = Tracing(Exporter("http://127.0.0.1:1", {}, "gate", 1.0), dropped.append)
    for _ in range(5000):
        made.finished(finished())

    assert sum(dropped) == 5000 - 4096
