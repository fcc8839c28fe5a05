"""The judge's questions on a real Prometheus, and what other servers answer."""

import json
import time
from urllib.parse import parse_qs, urlparse

import pytest

from tidegate.flow.ports import ReadFailed, Ref
from tidegate.shell.prometheus import PrometheusEvidences
from tidegate.shell.settings import Prometheus

from .prometheus_server import Exposition, LoopbackServer, PrometheusServer, Target

REF = Ref("default", "honest")
LABELS = {"namespace": "default", "llmdeployment": "honest"}
SETTINGS = Prometheus.model_validate({"timeout": "10s", "scrapeInterval": "1s"})
INTERVAL = 30


def gate(number: int) -> str:
    """Return what a gate exports: the new revision fails one request in ten."""
    lines = []
    for revision, bad in (("new", number), ("old", 0)):
        of = f'model="m",revision="{revision}"'
        for outcome, count in (("finished", 10 * number - bad), ("engine-failed", bad)):
            first = f'revision="{revision}",attempt="first",outcome="{outcome}"'
            lines.append(f"tidegate_gate_visits_total{{{first}}} {count}")
        for le, count in (("0.1", 5 * number), ("+Inf", 10 * number)):
            lines.append(f'tidegate_gate_ttft_seconds_bucket{{{of},le="{le}"}} {count}')
    return "\n".join([*lines, ""])


async def evidence(url: str, since: float, now: float):
    port = PrometheusEvidences(url, SETTINGS)
    try:
        return await port.of(REF, "new", "old", since, now)
    finally:
        port.close()


@pytest.mark.timeout(200)  # intervals are of 30 s, and this waits for one
async def test_both_sides_of_one_interval_come_from_a_real_prometheus():
    with Exposition(gate(0)) as exposition:
        targets = [Target("tidegate-gates", exposition.port, LABELS)]
        with PrometheusServer(targets, 1.0) as server:
            server.wait_for_series('tidegate_gate_visits_total{outcome="finished"}', 2)
            since = float(int(time.time()))
            number = 0
            while time.time() < since + INTERVAL + 1:
                number += 1
                exposition.text = gate(number)
                time.sleep(1.0)
            sides = await evidence(server.url, since, time.time())

    (canary,), (baseline,) = sides.canary, sides.baseline
    assert (canary.at, canary.seconds) == (since, INTERVAL) == (baseline.at, baseline.seconds)
    assert canary.ended_badly == pytest.approx(canary.requests / 10, rel=0.1)
    assert baseline.ended_badly == 0
    assert baseline.requests == pytest.approx(canary.requests, rel=0.1)
    assert canary.ttft.total == pytest.approx(canary.requests, rel=0.1)
    assert canary.preemptions is None, "no engine is scraped, and that is not 0"


async def test_a_prometheus_without_such_series_tells_nothing():
    with PrometheusServer() as server:
        now = float(int(time.time()))
        sides = await evidence(server.url, now - 100, now)
    assert [one.requests for one in sides.canary] == [None] * 3


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>log in</html>", "no JSON"),
        (b'{"status": "success", "data": {"result": 7}}', "list"),
    ],
)
async def test_what_is_no_answer_is_said_and_not_taken_for_silence(body, says):
    def get(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with LoopbackServer(get) as server, pytest.raises(ReadFailed, match=says):
        await evidence(server.url, 0.0, 100.0)


async def test_after_hours_old_intervals_are_long_and_those_of_now_are_not():
    def get(handler) -> None:
        asked = {key: values[0] for key, values in parse_qs(urlparse(handler.path).query).items()}
        begin, end, step = (float(asked[key]) for key in ("start", "end", "step"))
        ends = [begin + step * number for number in range(int((end - begin) // step) + 1)]
        of = {"revision": "new", "outcome": "finished"}
        series = [{"metric": of, "values": [[at, str(2 * step)] for at in ends]}]
        told = {"resultType": "matrix", "result": series if "ended" in asked["query"] else []}
        body = json.dumps({"status": "success", "data": told}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    since, now = 1_000_000.0, 1_000_000.0 + 16 * 3600 - 20
    with LoopbackServer(get) as server:
        canary = (await evidence(server.url, since, now)).canary

    assert [one.at for one in canary[1:]] == [one.at + one.seconds for one in canary[:-1]]
    assert (canary[0].at, canary[0].seconds) == (since, 480)
    assert (canary[-1].at + canary[-1].seconds, canary[-1].seconds) == (now - 10, INTERVAL)
    assert {one.requests / one.seconds for one in canary} == {2.0}


async def test_nobody_there_is_said_in_time():
    with LoopbackServer(lambda handler: None) as server:
        url = server.url
    with pytest.raises(ReadFailed, match="reached"):
        await evidence(url, 0.0, 100.0)
