"""Whatever answers as Prometheus: the reason is told, time and memory are bounded."""

import asyncio
import json
import time
from http.server import BaseHTTPRequestHandler

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload import queries
from tidegate.core.overload.signal import Signal, Unknown
from tidegate.flow.ports import Ref
from tidegate.shell.prometheus import PrometheusMetrics, address
from tidegate.shell.prometheus.session import MOST_BODY_BYTES
from tidegate.shell.settings import Prometheus

from .prometheus_server import LoopbackServer

SECRET = "s3cr3t-of-the-body"
EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})


def settings(**changes) -> Prometheus:
    return Prometheus.model_validate({"timeout": "2s", **changes})


async def asked(url: str, **changes) -> Unknown | None:
    """Ask once; return why there was no useful answer."""
    metrics = PrometheusMetrics(url, settings(**changes), lambda *told: None)
    try:
        assert await metrics.signals(time.time()) == {}
        return metrics.why_silent()
    finally:
        metrics.close()


def answers(body: bytes | str, status: int = 200, **headers: str):
    """Return a handler that gives one answer to everything."""

    def get(handler: BaseHTTPRequestHandler) -> None:
        raw = body.encode() if isinstance(body, str) else body
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return get


async def test_an_empty_answer_is_an_answer():
    with LoopbackServer(answers(EMPTY)) as server:
        assert await asked(server.url) is None


@pytest.mark.parametrize(
    ("get", "says"),
    [
        (answers(f"<html><title>{SECRET}</title>"), "no JSON"),
        (answers(SECRET, 500), "status 500"),
        (answers(SECRET, 401), "status 401"),
        (answers(SECRET, 503, Retry_After="1"), "status 503"),
        (answers(SECRET, 302, Location="http://127.0.0.1:1/"), "redirects are not followed"),
        (answers(json.dumps([SECRET])), "no result of a query"),
        (answers(json.dumps({"status": "error", "error": SECRET})), "no result of a query"),
        (answers(json.dumps({"data": {"result": SECRET}})), "not a list"),
        (answers(json.dumps({"data": {"result": [[1, SECRET]]}})), "no labels and value"),
        (answers("[" * 100_000), "no result of a query"),
        (answers(b"\xff\xfe\x00"), "no JSON"),
        (answers(b"\x1f\x8b", Content_Encoding="gzip"), "compressed"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
async def test_what_is_no_answer_of_prometheus_is_unreadable_and_never_repeated(get, says):
    with LoopbackServer(get) as server:
        silence = await asked(server.url)

    assert silence is not None
    assert silence.reason is Reason.METRICS_UNREADABLE
    assert says in silence.message
    assert SECRET not in silence.message


async def test_a_redirect_is_not_followed():
    seen: list[str] = []

    def note(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.path)
        answers(EMPTY)(handler)

    with (
        LoopbackServer(note) as inside,
        LoopbackServer(answers("", 307, Location=f"{inside.url}/api/v1/query")) as server,
    ):
        await asked(server.url)

    assert seen == []


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_an_answer_of_100_mb_is_cut_off(chunked):
    total, piece = 100 * 2**20, b"x" * 2**16
    sent = 0

    def get(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header(
            *(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(total)))
        )
        handler.end_headers()
        for _ in range(total // len(piece)):
            handler.wfile.write(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
            sent += len(piece)

    with LoopbackServer(get) as server:
        silence = await asked(server.url, timeout="60s")

    assert silence is not None
    assert silence.reason is Reason.METRICS_UNREADABLE
    assert "8 MiB" in silence.message
    assert sent < total - MOST_BODY_BYTES


def slow(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(10)
    answers(EMPTY)(handler)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def stalling(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    time.sleep(10)


def dripping_head(handler: BaseHTTPRequestHandler) -> None:
    for _ in range(100):
        handler.wfile.write(b"H")
        handler.wfile.flush()
        time.sleep(0.1)


@pytest.mark.parametrize("get", [slow, dripping, stalling, dripping_head])
async def test_a_slow_prometheus_delays_only_itself(get):
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    turning = asyncio.ensure_future(turn())
    with LoopbackServer(get) as server:
        silence = await asked(server.url, timeout="500ms")
    turning.cancel()

    assert silence is not None
    assert silence.reason is Reason.METRICS_UNREACHABLE
    assert "within 0.5 s" in silence.message
    assert turns > 3  # nothing else waited


async def test_while_a_question_is_under_way_no_other_one_is_asked():
    requests = 0

    def count(handler: BaseHTTPRequestHandler) -> None:
        nonlocal requests
        requests += 1
        dripping_head(handler)

    with LoopbackServer(count) as server:
        metrics = PrometheusMetrics(server.url, settings(timeout="200ms"), lambda *told: None)
        for _ in range(3):
            await metrics.signals(time.time())
            assert metrics.why_silent().reason is Reason.METRICS_UNREACHABLE
        metrics.close()

    assert requests == 1


async def test_nobody_there_is_told_in_the_systems_words():
    with LoopbackServer(answers(EMPTY)) as server:
        url = server.url
    silence = await asked(url)

    assert silence == Unknown(
        Reason.METRICS_UNREACHABLE,
        f"Prometheus cannot be reached: Connection refused (asked {url})",
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "http://prometheus-operated.monitoring:9090",
            "http://prometheus-operated.monitoring:9090",
        ),
        ("https://me:secret@mimir.example/prometheus", "https://mimir.example/prometheus"),
        ("https://[fd00::1]:9090/?token=secret#secret", "https://[fd00::1]:9090/"),
        ("http://[fd00::1", "prometheus.url"),
    ],
)
def test_the_address_is_told_without_what_lets_one_in(url, told):
    assert address.shown(url) == told


async def test_what_is_no_prometheus_is_told_with_its_address():
    with LoopbackServer(answers(b"<html>secret</html>")) as server:
        silence = await asked(server.url)

    assert silence.message.endswith(f"(asked {server.url})")
    assert "secret" not in silence.message


async def test_once_nobody_answers_the_other_questions_are_not_asked():
    told: list[tuple[str, bool]] = []
    with LoopbackServer(answers(EMPTY)) as server:
        url = server.url
    metrics = PrometheusMetrics(
        url, settings(), lambda name, seconds, good: told.append((name, good))
    )
    await metrics.signals(time.time())
    metrics.close()

    assert told == [("kv", False)]


async def test_neither_proxies_nor_credentials_of_the_environment_are_used(monkeypatch, tmp_path):
    headers: list[dict[str, str]] = []

    def note(handler: BaseHTTPRequestHandler) -> None:
        headers.append(dict(handler.headers))
        answers(EMPTY)(handler)

    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with LoopbackServer(note) as server:
        assert await asked(server.url) is None

    assert len(headers) == len(queries.all_of(15.0))
    assert all("Authorization" not in each for each in headers)


async def test_a_token_is_read_anew_for_each_question(tmp_path):
    tokens: list[str | None] = []

    def note(handler: BaseHTTPRequestHandler) -> None:
        tokens.append(handler.headers.get("Authorization"))
        answers(EMPTY)(handler)

    file = tmp_path / "token"
    with LoopbackServer(note) as server:
        metrics = PrometheusMetrics(
            server.url, settings(bearerTokenFile=str(file)), lambda *told: None
        )
        await metrics.signals(time.time())
        missing = metrics.why_silent()
        for token in ("one", "two"):
            file.write_text(f"{token}\n")
            await metrics.signals(time.time())
        metrics.close()

    assert "bearerTokenFile cannot be read: No such file" in missing.message
    assert dict.fromkeys(tokens) == {"Bearer one": None, "Bearer two": None}


async def test_a_sample_that_was_scraped_while_prometheus_was_slow_to_answer_is_fresh():
    """Time-out 10 s, an answer after 7 s, and in it a sample of the second before."""
    deployment = {"namespace": "chat", "llmdeployment": "qwen", "pool": "unified", "pod": "p1"}

    def tell(handler: BaseHTTPRequestHandler) -> None:
        if "tidegate_gate_tokens_reserved" in handler.path or "ttft" in handler.path:
            answers(EMPTY)(handler)
            return
        if "kv_cache_usage" in handler.path:
            time.sleep(7)  # more than clocks may be apart, less than the time-out
        at = time.time()
        figures = {"value": 0.5, "at": at - 1, "copies": 1}
        rows = [
            {"metric": {**deployment, "stat": stat, "engine": "0"}, "value": [at, str(value)]}
            for stat, value in figures.items()
        ]
        data = {"resultType": "vector", "result": rows}
        answers(json.dumps({"status": "success", "data": data}))(handler)

    with LoopbackServer(tell) as server:
        metrics = PrometheusMetrics(server.url, settings(timeout="10s"), lambda *told: None)
        told = await metrics.signals(time.time())
        metrics.close()

    assert told[Ref("chat", "qwen")]["unified", Signal.KV_USAGE].value == 0.5
