"""`tidegate status` reads the gates through the API server, as the user who asks."""

import json
import os
import subprocess
import sys

import pytest
from tests.shell.gate_world import SLICE, GateWorld, apply, gate_pod, until

POD = f"{SLICE}-5d8f7c9b6-x2x4z"
ADMIN_PORT = 9090


def status(namespace, kubeconfig, *more):
    """Run the command, and return its exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "status", "qwen", "-n", namespace, *more],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "KUBECONFIG": kubeconfig, "COLUMNS": "200"},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def world(namespace, kubeconfig, tmp_path, deployment):
    """A deployment whose engine is away, and one gate of it in a pod."""
    apply(deployment)
    made = GateWorld(namespace, kubeconfig, tmp_path)
    made.install(engine_port=1)
    made.endpoints(POD)
    gate = made.start(host=made.address, admin_port=ADMIN_PORT)
    gate_pod(namespace, "qwen-gate-1", made.address)
    until(lambda: gate.metric("tidegate_gate_config_generation 1.0"))
    yield made
    made.close()


def test_each_pod_is_shown_with_what_is_reserved_and_what_it_holds(world, namespace, kubeconfig):
    code, out, errors = status(namespace, kubeconfig)

    assert (code, errors) == (0, "")
    assert f"{namespace}/qwen" in out
    assert "1 of 1 gates answer, 0 requests wait" in out
    [row] = [line for line in out.splitlines() if POD in line]
    assert "unified" in row
    assert "never" in row  # the engine is away: nobody has read its metrics


def test_as_json_it_is_for_programs(world, namespace, kubeconfig):
    code, out, _ = status(namespace, kubeconfig, "-o", "json")
    told = json.loads(out)

    assert code == 0
    assert told["gates"] == [{"name": "qwen-gate-1", "answers": True, "error": None}]
    [pod] = told["pods"]
    assert (pod["name"], pod["reservedTokens"], pod["scrapeAgeSeconds"]) == (POD, 0, None)
    assert 0 < pod["capacityTokens"] <= 8192


def test_a_gate_that_does_not_answer_is_named_and_the_others_are_shown(
    world, namespace, kubeconfig
):
    gate_pod(namespace, "qwen-gate-2", "10.255.255.254")
    code, out, errors = status(namespace, kubeconfig)

    assert code == 0
    assert "1 of 2 gates answer" in out
    assert "gate qwen-gate-2 does not answer" in errors


def test_without_a_gate_that_answers_it_is_a_no(namespace, kubeconfig, deployment):
    apply(deployment)
    assert status(namespace, kubeconfig)[0] == 1


def test_a_deployment_that_is_not_there_is_a_no(namespace, kubeconfig):
    code, _, errors = status(namespace, kubeconfig)
    assert code == 1
    assert errors.startswith(f"tidegate: there is no LLMDeployment qwen in namespace {namespace};")
