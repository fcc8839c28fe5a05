"""The operator as a process: it starts, serves its probes, plans, and stops when told."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.shell.conftest import kubectl

PORT = 18099


def fetch(path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return None, ""


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


@pytest.fixture(params=[True, False], ids=["with a lease", "alone"])
def operator(request, kubeconfig, namespace, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        f"httpPort: {PORT}\nnamespace: {namespace}\nleaderElection: {str(request.param).lower()}\n"
    )
    with open(tmp_path / "log", "w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", "run", "--config", str(settings)],
            stderr=log,
            env={**os.environ, "KUBECONFIG": kubeconfig},
        )
        try:
            until(lambda: fetch("/readyz")[0] == 200)
            yield process, lambda: (tmp_path / "log").read_text()
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_at_once_and_cleanly_when_told(operator, number):
    process, log = operator
    until(lambda: "tidegate_leading 1.0" in fetch("/metrics")[1])
    process.send_signal(number)

    assert process.wait(timeout=10) == 0
    assert "Traceback" not in log()


def test_it_tells_of_itself_and_of_what_it_asks(operator, namespace, deployment):
    kubectl("apply", "-f", "-", input=json.dumps(deployment))
    path = f'tidegate_deployment_ready{{llmdeployment="qwen",namespace="{namespace}"}} 0.0'
    until(lambda: path in fetch("/metrics")[1])
    _, text = fetch("/metrics")

    assert fetch("/healthz")[0] == 200
    assert 'tidegate_api_calls_total{resource="nodes",status="200",verb="list"} 1.0' in text
    table = kubectl("get", "llmd", "-n", namespace).stdout
    assert "READY" in table
    assert "qwen" in table


def test_every_line_of_its_log_is_one_json_object(operator):
    process, log = operator
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=10)
    lines = [json.loads(line) for line in log().splitlines()]

    assert lines[0]["message"] == "starting"
    assert all({"time", "level", "logger"} <= line.keys() for line in lines)
