"""The second port tells what the gate knows, and nothing breaks it."""

import json

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from tidegate.gate.shell import admin, listening
from tidegate.gate.shell.configuration import Told


class Port:
    """A served admin port, and what it answers by."""

    def __init__(self) -> None:
        self.alive, self.why_not, self.probes = True, None, []
        self.told = Told(3, True, None, "cluster")
        self.url = ""

    async def probe(self, prefill, decode):
        self.probes.append((prefill, decode))
        return {"ok": True}

    async def ask(self, path, method="GET", **more):
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, **more) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def port():
    made, registry = Port(), CollectorRegistry()
    Gauge("one", "One.", registry=registry).set(1)
    answers = admin.Answers(
        registry=registry,
        is_alive=lambda: made.alive,
        why_not_ready=lambda: made.why_not,
        told=lambda: made.told,
        pods=lambda: {"queued": 2, "pods": []},
        probe=made.probe,
    )
    [bound] = listening.sockets("127.0.0.1", 0, "--admin-port")
    made.url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    runner = await admin.serve(answers, [bound])
    yield made
    await runner.cleanup()


async def test_metrics_are_in_the_text_format(port):
    status, text = await port.ask("/metrics")
    assert (status, "one 1.0" in text) == (200, True)


async def test_health_and_readiness_say_why_not(port):
    assert (await port.ask("/healthz"))[0] == 200
    assert await port.ask("/readyz") == (200, "ok\n")
    port.alive, port.why_not = False, "draining"
    assert (await port.ask("/healthz"))[0] == 503
    assert await port.ask("/readyz") == (503, "draining\n")


async def test_what_is_wrong_with_the_configuration_is_told(port):
    port.told = Told(3, False, "limits.maxQueue: must be a whole number", "disk")
    status, text = await port.ask("/configz")

    told = json.loads(text)
    assert status == 200
    assert (told["generation"], told["valid"], told["source"]) == (3, False, "disk")
    assert told["error"] == "limits.maxQueue: must be a whole number"


async def test_the_pods_are_a_document(port):
    assert json.loads((await port.ask("/podz"))[1])["queued"] == 2


async def test_a_probe_names_two_revisions(port):
    status, text = await port.ask("/probe", "POST", data='{"prefill": "a", "decode": "b"}')

    assert (status, json.loads(text)) == (200, {"ok": True})
    assert port.probes == [("a", "b")]


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"prefill": 1, "decode": "b"}', "null", "\x00"])
async def test_a_probe_without_them_is_refused(port, body):
    assert (await port.ask("/probe", "POST", data=body))[0] == 400
    assert port.probes == []


async def test_a_large_body_is_refused(port):
    assert (await port.ask("/probe", "POST", data="x" * 100_000))[0] == 413


async def test_a_probe_is_no_get_and_other_paths_are_not_there(port):
    assert (await port.ask("/probe"))[0] == 405
    assert (await port.ask("/v1/completions", "POST", data="{}"))[0] == 404
