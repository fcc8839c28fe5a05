"""Gates that the API server's proxy cannot reach are forwarded to, by few processes that end."""

import asyncio
import os

import pytest
from tests.unit.cli.cluster import NAMESPACE

from tidegate.cli.cluster import access, forward, gate_reach
from tidegate.cli.cluster.access import Access
from tidegate.cli.cluster.gate_reach import GateReach, GateSilent

FORWARDS = """#!/usr/bin/env python3
import http.server, os, sys
open({pids!r}, "a").write(f"{{os.getpid()}}\\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        print("Handling connection for " + "x" * 9000, flush=True)
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"Forwarding from 127.0.0.1:{{server.server_port}} -> 9090", flush=True)
server.serve_forever()
"""
STALLS = "#!/bin/sh\necho $$ >> {pids}\nexec /bin/sleep 60\n"
FAILS = "#!/bin/sh\necho $$ >> {pids}\nexit 1\n"


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Have a kubectl; return how to make it, and which of its processes have started and live."""
    pids = tmp_path / "pids"
    pids.touch()

    def make(program):
        path = tmp_path / "kubectl"
        path.write_text(program.format(pids=str(pids)))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def counts():
        started = pids.read_text().split()
        return len(started), sum(os.path.exists(f"/proc/{pid}") for pid in started)

    monkeypatch.setattr(forward, "_OPEN_SECONDS", 5.0)
    make.counts = counts
    return make


@pytest.fixture
def blocked(fake_cluster):
    """A cluster whose proxy reaches no pod."""
    for number in range(40):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/g{number}:"
        fake_cluster.refuse["GET", path] = (503, {"message": "no route"})
    return fake_cluster


def reading(use):
    async def run():
        async with (
            access.connected(Access(kubeconfig=os.environ["KUBECONFIG"])) as cluster,
            GateReach(cluster) as reach,
        ):
            return await use(reach)

    return asyncio.run(run())


async def silences(reach, pods, paths=("/podz", "/metrics")):
    found = await asyncio.gather(
        *(reach.read(pod, path) for pod in pods for path in paths), return_exceptions=True
    )
    assert all(isinstance(each, str | GateSilent) for each in found), found
    return sum(isinstance(each, GateSilent) for each in found)


def test_one_forward_serves_all_reads_of_a_pod_and_ends_with_the_command(blocked, kubectl):
    kubectl(FORWARDS)

    async def use(reach):
        for _ in range(40):  # more than a pipe holds of what kubectl says
            assert not await silences(reach, ["g0"])
        assert kubectl.counts() == (1, 1)
        with pytest.raises(GateSilent, match="answers 404"):
            await reach.read("g0", "/missing")
        assert kubectl.counts() == (1, 1), "a page that is not there breaks no forward"

    reading(use)
    assert kubectl.counts() == (1, 0)


@pytest.mark.parametrize("program", [STALLS, FAILS])
def test_a_forward_that_fails_is_ended_and_its_pod_let_be_for_a_while(
    blocked, kubectl, monkeypatch, program
):
    kubectl(program)
    monkeypatch.setattr(forward, "_OPEN_SECONDS", 1.0)

    async def use(reach):
        for _ in range(3):
            assert await silences(reach, ["g0", "g1"]) == 4
            assert kubectl.counts() == (2, 0)
        monkeypatch.setattr(gate_reach, "_BACK_OFF_SECONDS", 0.0)
        reach._failed.clear()
        await silences(reach, ["g0"], ["/podz"])
        assert kubectl.counts() == (3, 0)

    reading(use)


def test_a_forward_that_broke_is_ended_and_opened_anew(blocked, kubectl):
    kubectl(FORWARDS)

    async def use(reach):
        await silences(reach, ["g0"])
        os.kill(reach._forwards["g0"]._process.pid, 9)
        assert not await silences(reach, ["g0"], ["/podz"])
        assert kubectl.counts() == (2, 1)

    reading(use)
    assert kubectl.counts() == (2, 0)


def test_there_are_never_more_forwards_than_a_machine_bears(blocked, kubectl, monkeypatch):
    kubectl(FORWARDS)
    monkeypatch.setattr(gate_reach, "_MOST_FORWARDS", 3)

    async def use(reach):
        for _ in range(2):
            assert await silences(reach, [f"g{n}" for n in range(6)]) == 6
            assert kubectl.counts() == (3, 3)

    reading(use)
    assert kubectl.counts() == (3, 0)
