"""The gate as a process in front of engines' doubles, told by files."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from e2e.double.process import Double, free_port
from e2e.engine import tiny_model

GUIDE = Path(__file__).parents[2] / "docs/guides/gate-without-cluster.md"
STEP = {"DOUBLE_STEP_SECONDS": "0.01"}


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (got := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
    return got


def fetch(url, data=None, **headers):
    request = urllib.request.Request(
        url, data and json.dumps(data).encode(), {"Content-Type": "application/json", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return None, ""


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Two engines of the guide."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    tiny_model.write_model(folder, "gqa")
    flags = ("--served-model-name", "tiny", "--max-model-len", "2048")
    with (
        Double(folder, *flags, environment=STEP) as one,
        Double(folder, *flags, environment=STEP) as two,
    ):
        yield one.wait_healthy(), two.wait_healthy()


class Running:
    """A gate by the guide's files."""

    def __init__(self, folder, engines, *options) -> None:
        self.folder = folder
        config, endpoints = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.S)
        self.config, self.endpoints = json.loads(config), json.loads(endpoints)
        for pod, engine in zip(self.endpoints["pods"], engines, strict=True):
            pod["port"] = engine.port
        self.write()
        self.port, self.admin_port = free_port(), free_port()
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tidegate", "gate", "--host", "127.0.0.1"),
                    *("--namespace", "local", "--deployment", "tiny", "--linger", "0.3"),
                    *("--config-file", str(folder / "gate.json")),
                    *("--endpoints-file", str(folder / "endpoints.json")),
                    *("--port", str(self.port), "--admin-port", str(self.admin_port)),
                    *options,
                ],
                stderr=log,
            )

    def __enter__(self):
        until(lambda: self.admin("/readyz")[0] == 200)
        until(lambda: self.ask()[0] in {200, 401})
        return self

    def __exit__(self, *raised):
        self.process.kill()
        self.process.wait()

    def write(self):
        for name, document in (("gate", self.config), ("endpoints", self.endpoints)):
            new = self.folder / f"{name}.new"
            new.write_text(json.dumps(document))
            os.replace(new, self.folder / f"{name}.json")

    def admin(self, path, data=None):
        return fetch(f"http://127.0.0.1:{self.admin_port}{path}", data)

    def ask(self, headers=None, **changes):
        body = {"model": "tiny", "prompt": "The tide", "max_tokens": 4, **changes}
        return fetch(f"http://127.0.0.1:{self.port}/v1/completions", body, **(headers or {}))

    def pods(self):
        return json.loads(self.admin("/podz")[1])["pods"]

    def log(self):
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def messages(self):
        return [line["message"] for line in self.log()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory, engines):
    """A gate that tests leave as it was."""
    with Running(tmp_path_factory.mktemp("shared"), engines) as made:
        yield made


@pytest.fixture
def gate(tmp_path, engines):
    """A gate that a test may change and end."""
    with Running(tmp_path, engines, "--log-requests", "all") as made:
        yield made


def test_it_serves_by_the_files_of_the_guide_and_holds_nothing_afterwards(shared):
    for _ in range(5):
        assert shared.ask()[0] == 200

    assert {pod["name"] for pod in shared.pods()} == {"one", "two"}
    assert sum(pod["reservedTokens"] for pod in shared.pods()) == 0
    _, metrics = shared.admin("/metrics")
    assert 'tidegate_gate_tokens_reserved{pod="one",pool="unified"} 0.0' in metrics
    assert re.search(r'requests_total\{class="5",model="tiny",outcome="finished".*\} [56]', metrics)
    assert "tidegate_gate_internal_errors_total{" not in metrics, "no part of it failed"


def test_the_engines_own_numbers_are_read(shared):
    until(lambda: all(pod["scrapeAgeSeconds"] is not None for pod in shared.pods()))
    # the double's card holds far more than the guide's engine
    assert all(pod["capacityTokens"] > 8160 for pod in shared.pods())


def test_a_probe_tells_whether_a_revision_serves(shared):
    status, text = shared.admin("/probe", {"prefill": "a", "decode": "a"})
    assert (status, json.loads(text)["ok"]) == (200, True)
    _, text = shared.admin("/probe", {"prefill": "a", "decode": "b"})
    assert not json.loads(text)["ok"]


def test_files_that_change_are_read_again_and_bad_ones_are_told(gate):
    gate.config["generation"] = 2
    gate.endpoints["pods"].pop()
    gate.write()
    until(lambda: json.loads(gate.admin("/configz")[1])["generation"] == 2)
    until(lambda: len(gate.pods()) == 1)
    gate.config["generation"] = "three"
    gate.endpoints["pods"][0]["slice"] = "unheard-of"
    gate.write()
    until(lambda: json.loads(gate.admin("/configz")[1])["error"])
    until(lambda: "endpoints refused, the last good ones stay" in gate.messages())

    assert json.loads(gate.admin("/configz")[1])["generation"] == 2
    assert gate.ask()[0] == 200


def test_told_to_stop_under_load_it_loses_no_request(gate):
    with concurrent.futures.ThreadPoolExecutor(25) as pool:
        asked = [pool.submit(gate.ask, max_tokens=100, ignore_eos=True) for _ in range(24)]
        until(lambda: sum(pod["requests"] for pod in gate.pods()) == 24)
        gate.process.send_signal(signal.SIGTERM)
        until(lambda: gate.admin("/readyz")[0] == 503)
        late = pool.submit(gate.ask)
        statuses = [future.result()[0] for future in asked]

        assert statuses == [200] * 24
        assert late.result()[0] == 200  # it lingers for those who have not heard
    assert gate.process.wait(timeout=60) == 0
    assert gate.log()[-1] | {"message": "stopped", "allServed": True} == gate.log()[-1]


def test_told_twice_it_stops_at_once(gate):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(gate.ask, max_tokens=2000, ignore_eos=True)
        until(lambda: sum(pod["requests"] for pod in gate.pods()) == 1)
        gate.process.send_signal(signal.SIGTERM)
        until(lambda: "leaving" in gate.messages())
        gate.process.send_signal(signal.SIGTERM)

        assert gate.process.wait(timeout=15) == 0
        assert asked.result()[0] != 200


def test_keys_are_read_again_without_a_restart_and_never_logged(tmp_path, engines):
    keys = tmp_path / "keys"
    keys.write_text("team-a: {key: sk-first-0123456789}\n")
    options = ("--keys-file", str(keys), "--log-requests", "all")
    with Running(tmp_path, engines, *options) as gate:
        gate.config |= {"generation": 2, "tenants": {"requireKey": True}}
        gate.write()
        until(lambda: gate.ask()[0] == 401)
        assert gate.ask({"Authorization": "Bearer sk-first-0123456789"})[0] == 200
        keys.write_text("team-a: {key: sk-second-987654321}\n")
        until(lambda: gate.ask({"Authorization": "Bearer sk-second-987654321"})[0] == 200)

        assert gate.ask({"Authorization": "Bearer sk-first-0123456789"})[0] == 401
        assert "sk-" not in json.dumps(gate.log())
        assert "The tide" not in json.dumps(gate.log())


def test_a_port_that_is_taken_is_said_in_one_line(shared):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tidegate", "gate", "--host", "127.0.0.1"),
            *("--namespace", "local", "--deployment", "tiny"),
            *("--config-file", str(shared.folder / "gate.json")),
            *("--endpoints-file", str(shared.folder / "endpoints.json")),
            *("--port", str(shared.port), "--admin-port", str(free_port())),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2
    assert f"tidegate: --port: cannot listen on 127.0.0.1 port {shared.port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "this is no pod"),
        (["--config-file", __file__], "together"),
        (["--api-server", "http://127.0.0.1:1", "--peer", "x"], "is not NAME=HOST:PORT"),
    ],
)
def test_wrong_usage_is_told(options, said):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tidegate",
            "gate",
            "--namespace",
            "a",
            "--deployment",
            "b",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=100,
        env={key: value for key, value in os.environ.items() if "KUBERNETES" not in key},
    )
    assert done.returncode == 2
    assert said in done.stderr
