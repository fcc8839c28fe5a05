"""The API server goes away for longer than a Lease lasts, and comes back."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from e2e.cluster import Cluster
from tests.shell.conftest import kubectl

AWAY_SECONDS = 40
SOON_SECONDS = 30
"""Its Lease is tried every 2 s, its caches at least every 10 s; the rest is a slow machine's."""
_PORTS = (18097, 18098)


class Process:
    """One replica of the operator."""

    def __init__(self, kubeconfig: str, namespace: str, folder: Path, port: int) -> None:
        self.port = port
        settings = folder / f"settings-{port}.yaml"
        settings.write_text(
            f"httpPort: {port}\nnamespace: {namespace}\nwebhook: {{enabled: false}}\n"
        )
        self.log = folder / f"log-{port}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "run", "--config", str(settings)],
                stderr=log,
                env={**os.environ, "KUBECONFIG": kubeconfig},
            )

    def leads(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as told:
                return b"tidegate_leading 1.0" in told.read()
        except OSError:
            return False

    def messages(self) -> list[str]:
        return [json.loads(line)["message"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def replicas(kubeconfig, namespace, tmp_path):
    processes = [Process(kubeconfig, namespace, tmp_path, port) for port in _PORTS]
    yield processes
    for each in processes:
        each.process.kill()
        each.process.wait()


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def observed(namespace):
    """The generation that the status of the test's deployment is of."""
    path = "jsonpath={.status.observedGeneration}"
    return kubectl("get", "llmd", "qwen", "-n", namespace, "-o", path).stdout


@pytest.mark.timeout(240)
def test_who_led_leads_again_within_seconds_and_no_process_ends(replicas, namespace, deployment):
    kubectl("apply", "-f", "-", input=json.dumps(deployment))
    until(lambda: any(each.leads() for each in replicas))
    until(lambda: observed(namespace) == "1")
    cluster = Cluster()

    cluster.stop("kube-apiserver", grace_seconds=0)
    try:
        time.sleep(AWAY_SECONDS)
        assert not any(each.leads() for each in replicas), "nobody leads by a Lease that ran out"
    finally:
        cluster.start("kube-apiserver")
    patch = {"spec": {"pools": {"unified": {"replicas": 2}}}}
    kubectl("patch", "llmd", "qwen", "-n", namespace, "--type=merge", "-p", json.dumps(patch))

    until(lambda: observed(namespace) == "2", SOON_SECONDS)
    assert sum(each.leads() for each in replicas) == 1
    for each in replicas:
        assert each.process.poll() is None
        assert each.messages().count("starting") == 1
