"""The levers of whoever is on call, by a real API server and a real gate, with their own rights."""

import json
import os
import subprocess
import sys
import tarfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tests.shell.conftest import kubectl
from tests.shell.gate_world import SLICE, GateWorld, apply, gate_pod, until

POD = f"{SLICE}-5d8f7c9b6-x2x4z"
ADMIN_PORT = 9090
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "levers.md"
FAR = "2999-01-01T00:00:00Z"


def govern(namespace, name, overload=None):
    """Write the status that an operator would have written."""
    status = {"observedGeneration": 1, "overload": overload}
    kubectl(
        *("patch", "llmd", name, "-n", namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )


@contextmanager
def operator(namespace, name="qwen"):
    """Take note of each lever, as an operator does, until the block ends."""
    is_over = threading.Event()

    def run():
        while not is_over.wait(0.2):
            lever = override(namespace, name)
            told = {
                "summary": "as it is",
                "state": "Override" if lever else "Normal",
                "shedPercent": lever["percent"] if lever else 0,
                "shiftPercent": 0,
                "reason": "OverrideActive" if lever else "WithinThresholds",
                "message": "as it is",
                "override": lever,
            }
            govern(namespace, name, told)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    is_over.set()
    thread.join()


@pytest.fixture
def governed(namespace, deployment):
    """Two deployments that an operator looks after."""
    for name in ("qwen", "west"):
        apply({**deployment, "metadata": {"name": name, "namespace": namespace}})
        govern(namespace, name)
    return namespace


@pytest.fixture
def oncall(namespace, kubeconfig, tmp_path):
    """A kubeconfig of a user who has the Role of the guide, and nothing else."""
    role = next(block for block in yaml.safe_load_all(_yaml_of_guide()) if block["kind"] == "Role")
    apply({**role, "metadata": {"name": "tidegate-on-call", "namespace": namespace}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    apply({**account, "metadata": {"name": "robin", "namespace": namespace}})
    kubectl(
        *("create", "rolebinding", "robin", "-n", namespace),
        *("--role=tidegate-on-call", f"--serviceaccount={namespace}:robin"),
    )
    return _kubeconfig_of(namespace, "robin", kubeconfig, tmp_path)


def _yaml_of_guide():
    text = GUIDE.read_text(encoding="utf-8")
    return text.split("```yaml\n")[1].split("```")[0]


def _kubeconfig_of(namespace, account, kubeconfig, folder):
    token = kubectl("create", "token", account, "-n", namespace).stdout
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["users"] = [{"name": account, "user": {"token": token}}]
    cluster = config["clusters"][0]["name"]
    config["contexts"] = [
        {
            "name": account,
            "context": {"cluster": cluster, "user": account, "namespace": namespace},
        }
    ]
    config["current-context"] = account
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def tidegate(kubeconfig):
    """Run the command as the administrator, or by another kubeconfig."""

    def run(*arguments, by=None, stdin=None):
        done = subprocess.run(
            [sys.executable, "-m", "tidegate", *arguments],
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "KUBECONFIG": by or kubeconfig, "COLUMNS": "200"},
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def gate(governed, kubeconfig, tmp_path):
    """A gate of the first deployment, in a pod."""
    made = GateWorld(governed, kubeconfig, tmp_path)
    made.install(engine_port=1)
    made.endpoints(POD)
    process = made.start(host=made.address, admin_port=ADMIN_PORT)
    gate_pod(governed, "qwen-gate-1", made.address)
    until(lambda: process.metric("tidegate_gate_config_generation 1.0"))
    yield made
    made.close()


def override(namespace, name="qwen"):
    """Return the lever that is stored."""
    told = kubectl("get", "llmd", name, "-n", namespace, "-o", "json").stdout
    return json.loads(told)["spec"].get("overload", {}).get("override")


def held(percent=30, **more):
    """Return the configuration of a gate that applies a lever."""
    return {"shed": {"percent": percent, "until": FAR, "reason": "INC-1"}, **more}


def test_a_lever_is_set_and_let_go_of_with_the_role_of_the_guide(gate, governed, tidegate, oncall):
    gate.configure(generation=2, **held())
    until(lambda: gate.processes[0].metric("tidegate_gate_shed_percent 30.0"))
    with operator(governed):
        code, out, errors = tidegate(
            *("shed", "qwen", "30", "--for", "30m", "--reason", "INC-1", "--yes"), by=oncall
        )

    assert (code, errors) == (0, "")
    assert f"{governed}/qwen: turn away 30 % of the requests" in out
    assert "Requests per second now: 0.0. KV tokens reserved: 0%." in out
    assert "Classes from 9 up are never turned away" in out
    assert "The gates apply it." in out
    assert f"Undo: kubectl tidegate open qwen -n {governed}" in out
    stored = override(governed)
    assert (stored["action"], stored["percent"], stored["reason"]) == ("Shed", 30, "INC-1")

    gate.configure(generation=3)
    until(lambda: gate.processes[0].metric("tidegate_gate_shed_percent 0.0"))
    with operator(governed):
        code, out, errors = tidegate("open", "qwen", "--yes", by=oncall)
    assert (code, errors) == (0, "")
    assert "In its place until now: Shed 30 %" in out
    assert override(governed) is None


def test_a_new_lever_leaves_nothing_of_the_one_before(governed, tidegate):
    first = ("shift", "qwen", "20", "--to", "west", "--for", "1h", "--reason", "first", "--yes")
    tidegate(*first, "-n", governed)
    assert override(governed)["to"] == "west"
    code, out, _ = tidegate(
        *("open", "qwen", "--hold", "--for", "5m", "--reason", "second", "--yes"),
        *("-n", governed, "-o", "json"),
    )

    stored = override(governed)
    assert (stored["action"], stored["reason"]) == ("Open", "second")
    assert not {"percent", "to"} & set(stored)
    assert json.loads(out)["override"] == stored
    assert json.loads(out)["replaced"]["to"] == "west"
    assert code == 1  # there is no gate that would apply it


def test_the_owner_of_the_field_is_the_command_and_a_dry_run_writes_nothing(governed, tidegate):
    shed = ("shed", "qwen", "30", "--for", "30m", "--reason", "INC-1", "-n", governed)
    assert tidegate(*shed, "--dry-run")[0] == 0
    assert override(governed) is None
    tidegate(*shed, "--yes")
    told = kubectl(
        "get", "llmd", "qwen", "-n", governed, "-o", "json", "--show-managed-fields"
    ).stdout
    [entry] = [
        entry
        for entry in json.loads(told)["metadata"]["managedFields"]
        if entry["manager"] == "kubectl-tidegate"
    ]

    assert "f:override" in json.dumps(entry["fieldsV1"])


def test_what_the_api_server_finds_wrong_is_one_line_that_names_the_field(governed, tidegate):
    code, _, errors = tidegate(
        *("shed", "qwen", "30", "--for", "30m", "--reason", "x\x07", "-n", governed, "--yes")
    )

    assert code == 1
    assert "spec.overload.override.reason" in errors
    assert errors.count("\n") == 1


@pytest.fixture
def nobody(namespace, kubeconfig, tmp_path):
    """A kubeconfig of a user without any right."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    apply({**account, "metadata": {"name": "sam", "namespace": namespace}})
    return _kubeconfig_of(namespace, "sam", kubeconfig, tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("shed", "qwen", "30", "--for", "30m", "--reason", "x", "--yes"),
        ("open", "qwen", "--yes"),
        ("drain", "qwen", "pod", "--yes"),
        ("status", "qwen"),
        ("top", "qwen", "--once"),
        ("bundle", "qwen", "-f", "never-written.tgz"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_rights_it_is_one_line_that_says_which_to_ask_for(
    governed, tidegate, nobody, arguments
):
    code, _, errors = tidegate(*arguments, by=nobody)

    assert code == 1
    assert "cannot get resource" in errors
    assert "docs/guides/levers.md has the Role to ask for" in errors
    assert errors.count("\n") == 1


def engine_pod(namespace, name):
    """A pod of the engine, as kubelet would tell of it, and a budget that keeps it."""
    labels = {"tidegate.io/deployment": "qwen", "tidegate.io/pool": "unified"}
    apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [{"name": "engine", "image": "none:1"}]},
        }
    )
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    kubectl(
        *("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": ready})),
    )
    return labels


def test_a_pod_leaves_by_eviction_with_the_role_of_the_guide(governed, tidegate, oncall):
    engine_pod(governed, POD)
    code, out, errors = tidegate("drain", "qwen", POD, "--dry-run", by=oncall)
    assert (code, errors) == (0, "")
    code, out, errors = tidegate("drain", "qwen", POD, "--yes", by=oncall)

    assert (code, errors) == (0, "")
    assert "Requests on it now: unknown, no gate tells of it." in out
    assert "Gone after" in out
    assert kubectl("get", "pod", POD, "-n", governed, check=False).returncode == 1


def test_a_disruption_budget_keeps_the_pod(governed, tidegate):
    labels = engine_pod(governed, POD)
    apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "qwen-unified", "namespace": governed},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        }
    )
    code, _, errors = tidegate("drain", "qwen", POD, "--yes", "-n", governed)

    assert code == 1
    assert errors.startswith(f"tidegate: {POD} stays: Cannot evict pod")
    assert kubectl("get", "pod", POD, "-n", governed).returncode == 0


def test_a_bundle_is_gathered_with_the_role_of_the_guide(
    gate, governed, tidegate, oncall, tmp_path
):
    path = tmp_path / "report.tgz"
    code, _, errors = tidegate("bundle", "qwen", "-f", str(path), by=oncall)
    with tarfile.open(path) as archive:
        files = {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode()
            for entry in archive.getmembers()
        }

    assert (code, errors) == (0, "")
    missing = files["README.txt"].partition("Not there:")[2]
    refused = [line for line in missing.splitlines() if "cannot" in line]
    assert [line for line in refused if 'namespace "tidegate-system"' not in line] == []
    assert "tidegate_gate_config_generation" in files["gates/qwen-gate-1/metrics.txt"]
    assert {"llmdeployment.yaml", "objects/pods.yaml", "objects/configmaps.yaml"} <= set(files)


def test_top_reads_a_real_gate_with_the_role_of_the_guide(gate, tidegate, oncall):
    code, out, errors = tidegate("top", "qwen", "--once", "-o", "json", by=oncall)
    told = json.loads(out)

    assert (code, errors) == (0, "")
    assert told["gates"] == {"total": 1, "answering": 1}
    assert told["perSecond"]["asked"] == 0
    assert told["pools"][0]["pods"][0]["name"] == POD


@pytest.mark.parametrize(
    ("verb", "resource"), [("get", "secrets"), ("create", "pods"), ("delete", "pods")]
)
def test_the_role_of_the_guide_gives_nothing_that_a_lever_does_not_need(
    governed, oncall, verb, resource
):
    account = f"system:serviceaccount:{governed}:robin"
    asked = ("auth", "can-i", verb, resource, "--as", account, "-n", governed)
    assert kubectl(*asked, check=False).stdout.strip() == "no"
