"""A gate in a cluster: what it is told, and that it serves on when nobody tells it anything."""

import json
import os
import re
import time

import pytest
from e2e.double.process import Double
from e2e.engine import tiny_model
from tests.shell.conftest import kubectl
from tests.shell.gate_world import SLICE, GateWorld, until

POD = f"{SLICE}-5d8f7c9b6-x2x4z"
OUTAGE_SECONDS = float(os.environ.get("TIDEGATE_OUTAGE_SECONDS", "5"))
"""How long the API server is away; 120 in a long run by hand, which is too long for each change."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The engine's double, reachable at this machine's address in the cluster."""
    folder = tmp_path_factory.mktemp("engine") / "tiny"
    tiny_model.write_model(folder, "gqa")
    flags = ("--host", "0.0.0.0", "--served-model-name", "tiny", "--max-model-len", "2048")
    with Double(folder, *flags) as double:
        double.wait_healthy()
        yield double


@pytest.fixture
def world(namespace, kubeconfig, tmp_path, engine):
    """A gate's objects and one ready pod."""
    made = GateWorld(namespace, kubeconfig, tmp_path)
    made.install(engine.port)
    made.endpoints(POD)
    yield made
    made.close()


def test_the_rendered_role_is_enough_and_not_more(world):
    gate = world.start()
    until(gate.serves)

    assert not re.search(r"\b403\b|Forbidden", gate.log()), gate.log()
    account = f"system:serviceaccount:{world.namespace}:qwen-gate"
    for verb, what in (("get", "secrets"), ("list", "configmaps"), ("get", "pods")):
        asked = ("auth", "can-i", verb, what, "--as", account, "-n", world.namespace)
        assert kubectl(*asked, check=False).stdout.strip() == "no"


def test_a_configuration_that_changes_is_used_within_a_moment(world):
    gate = world.start()
    until(gate.serves)
    world.configure(generation=2, models=["renamed"])
    until(lambda: gate.told()["generation"] == 2, seconds=3)

    assert gate.ask(model="renamed")[0] in {200, 404}
    assert gate.ask(model="tiny")[0] == 404
    assert gate.metric("tidegate_gate_config_generation 2.0")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"text": "{"}, "invalid JSON"),
        ({"schemaVersion": "tidegate.io/gate/v9"}, "schemaVersion"),
        ({"limits": {"maxQueue": "many"}}, "limits.maxQueue"),
    ],
)
def test_of_a_bad_configuration_the_last_good_one_stays(world, bad, said):
    gate = world.start()
    until(gate.serves)
    world.configure(**bad)
    until(lambda: gate.told()["error"])

    assert said in gate.told()["error"]
    assert gate.told()["generation"] == 1
    assert gate.metric("tidegate_gate_config_valid 0.0")
    assert gate.serves()
    assert gate.admin("/readyz")[0] == 200
    world.configure(generation=3)
    until(lambda: gate.told() | {"valid": True, "generation": 3} == gate.told())


def test_a_configuration_that_is_deleted_is_not_forgotten(world):
    gate = world.start()
    until(gate.serves)
    kubectl("delete", "configmap", "qwen-gate", "-n", world.namespace)
    until(lambda: gate.told()["error"])

    assert "does not exist" in gate.told()["error"]
    assert gate.serves()


def test_before_there_is_a_configuration_it_is_not_ready_and_answers_503(world):
    kubectl("delete", "configmap", "qwen-gate", "-n", world.namespace)
    gate = world.start()

    assert gate.admin("/readyz")[0] == 503
    status, body = gate.ask()
    assert status == 503
    assert "configuration" in json.loads(body)["error"]["message"]
    world.configure()
    until(gate.serves)
    assert gate.admin("/readyz")[0] == 200


@pytest.mark.parametrize(
    "conditions",
    [{"ready": False}, {"ready": False, "serving": True, "terminating": True}],
    ids=["not ready", "terminating"],
)
def test_a_pod_that_does_not_serve_gets_nothing_and_one_that_does_again_is_used_at_once(
    world, conditions
):
    gate = world.start()
    until(gate.serves)
    world.endpoints(POD, **conditions)
    until(lambda: gate.ask()[0] == 503)
    assert "no-endpoints" in gate.admin("/metrics")[1]
    world.endpoints(POD)
    began = time.monotonic()
    until(gate.serves)

    assert time.monotonic() - began < 1


def test_an_endpoint_slice_that_is_deleted_takes_its_pods_along(world):
    gate = world.start()
    until(gate.serves)
    kubectl("delete", "endpointslice", "qwen-unified-x1", "-n", world.namespace)
    until(lambda: gate.ask()[0] == 503)

    assert json.loads(gate.admin("/podz")[1])["pods"] == []


def test_gates_divide_the_pods_by_their_ready_endpoints(world):
    gate = world.start()
    until(gate.serves)
    until(lambda: gate.metric("tidegate_gate_gates 1.0"))
    world.endpoints("qwen-gate-1", "qwen-gate-2", "qwen-gate-3", service="qwen")
    until(lambda: gate.metric("tidegate_gate_gates 3.0"))


@pytest.mark.timeout(OUTAGE_SECONDS + 120)
def test_while_the_api_server_is_away_requests_go_on_and_a_restarted_gate_serves_too(world):
    gate = world.start()
    until(gate.serves)
    until(lambda: (world.folder / "state" / "endpointslices.json").exists())
    world.line.cut()
    answered_for(gate, OUTAGE_SECONDS / 2)
    gate.kill()
    restarted = world.start()
    answered_for(restarted, OUTAGE_SECONDS / 2)
    assert restarted.told()["source"] == "disk"

    world.configure(generation=2)
    world.line.mend()
    # the pause between two tries has grown with the outage
    until(lambda: restarted.told()["generation"] == 2, seconds=60)


def answered_for(gate, seconds):
    """Ask all the time; every request is answered."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert gate.serves()
        time.sleep(0.1)


def test_a_gate_that_starts_while_the_api_server_is_away_serves_by_its_copies(world):
    first = world.start()
    until(first.serves)
    until(lambda: (world.folder / "state" / "endpointslices.json").exists())
    first.kill()
    world.line.cut()
    second = world.start()

    assert second.admin("/readyz")[0] == 200
    assert second.serves()
    assert second.told()["source"] == "disk"
    world.configure(generation=2)
    world.line.mend()
    until(lambda: second.told()["generation"] == 2, seconds=15)


def test_a_gate_without_copies_waits_for_the_api_server(world):
    world.line.cut()
    gate = world.start()
    time.sleep(1)

    assert gate.admin("/readyz")[0] == 503
    world.line.mend()
    until(gate.serves, seconds=15)


def test_it_leaves_when_told_and_ends_what_it_serves(world):
    gate = world.start()
    until(gate.serves)

    assert gate.stop() == 0
    assert '"message":"stopped"' in gate.log()
    assert "Traceback" not in gate.log()
