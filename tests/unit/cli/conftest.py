"""What the tests of the commands need: a headless browser, and a cluster to ask."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.unit.cli import cluster, gate_pages

from tidegate import cli
from tidegate.cli import drain, top
from tidegate.cli.levers import lever_look, lever_wait

_WITHOUT_CLUSTER = ("runbook",)
SCRIPT = Path(__file__).parents[3] / "scripts" / "browser"


@pytest.fixture(scope="session")
def browser():
    """Return the path of a Chromium; where none can be had the test is skipped, but not in CI."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True)
    if found.returncode and not os.environ.get("CI"):
        pytest.skip(f"the page was not looked at in a browser: {found.stderr.strip()}")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip().splitlines()[-1]


@pytest.fixture
def fake_cluster(tmp_path, monkeypatch):
    """A cluster with one deployment and one gate, which KUBECONFIG names."""
    made = cluster.FakeCluster()
    made.deployment()
    made.gate("qwen-gate-1", gate_pages.podz(), gate_pages.counting())
    port, end = cluster.serve(made)
    monkeypatch.setenv("KUBECONFIG", cluster.write_kubeconfig(tmp_path / "kubeconfig", port))
    yield made
    end()


@pytest.fixture
def tidegate(monkeypatch, capfd):
    """Run the command in this process, with waits that are as short as a fake cluster allows."""
    monkeypatch.setattr(lever_look, "WINDOW_SECONDS", 0.05)
    monkeypatch.setattr(lever_wait, "_HOLD_SECONDS", 0.3)
    monkeypatch.setattr(lever_wait, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(drain, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(top, "ONCE_SECONDS", 0.05)
    monkeypatch.setenv("PATH", "")  # no kubectl, which would try to forward to pods

    def run(*arguments):
        config = os.environ.get("KUBECONFIG")  # the client itself reads it once in a process
        if config and arguments[0] not in _WITHOUT_CLUSTER:
            arguments = (*arguments, "--kubeconfig", config)
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        out, errors = capfd.readouterr()
        return ended.value.code, out, errors

    return run
