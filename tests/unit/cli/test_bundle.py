"""`tidegate bundle` has what a bug report needs, and no secret that was planted anywhere."""

import stat
import tarfile

import pytest
from tests.unit.cli import gate_pages
from tests.unit.cli.cluster import NAMESPACE

PLANTED = "hunter2" + "Planted9aB"
HUB_TOKEN = "hf_" + "PlantedAbCdEfGhIjKl"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/qwen-unified-a-1"


@pytest.fixture
def planted(fake_cluster):
    """Secrets wherever somebody may have put one."""
    fake_cluster.deployment(
        metadata={
            "name": "qwen",
            "namespace": NAMESPACE,
            "uid": "u",
            "resourceVersion": "7",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": f'{{"x":"{PLANTED}"}}',
                "example.com/webhook-token": PLANTED,
            },
        },
        spec={"engine": {"extraArgs": ["--api-key", PLANTED]}, "gate": {"enabled": True}},
        status={"observedGeneration": 1, "plan": [{"pool": "unified", "kvTokens": 8192}]},
    )
    labels = {"tidegate.io/deployment": "qwen", "tidegate.io/pool": "unified"}
    env = [
        {"name": "HF_TOKEN", "value": HUB_TOKEN},
        {"name": "MIRROR", "value": f"https://robin:{PLANTED}@models.example.com/"},
    ]
    fake_cluster.pod(
        "qwen-unified-a-1",
        labels,
        spec={"containers": [{"name": "engine", "env": env}]},
        status={"containerStatuses": [{"name": "engine", "restartCount": 2}]},
    )
    fake_cluster.objects[f"/api/v1/namespaces/{NAMESPACE}/configmaps/qwen-gate"] = {
        "kind": "ConfigMap",
        "metadata": {"name": "qwen-gate", "labels": labels},
        "data": {"gate.json": f'{{"models": ["tiny"], "password": "{PLANTED}"}}'},
    }
    fake_cluster.objects[f"/api/v1/namespaces/{NAMESPACE}/secrets/keys"] = {
        "kind": "Secret",
        "metadata": {"name": "keys", "labels": labels},
        "data": {"keys": PLANTED},
    }
    for name, about in (("one", "qwen-unified-a-1"), ("other", "stranger")):
        fake_cluster.objects[f"/api/v1/namespaces/{NAMESPACE}/events/{name}"] = {
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": {"name": about},
            "message": f"pulled https://x/y?token={PLANTED} for {about}",
        }
    log = f"INFO loading\nAuthorization: Bearer {PLANTED}\nusing {HUB_TOKEN}\n"
    fake_cluster.texts[f"{POD}/log"] = lambda: log
    metrics = f'secret_info{{token="{PLANTED}"}} 1\n'
    fake_cluster.gate("qwen-gate-1", gate_pages.podz(), lambda: gate_pages.page(1) + metrics)
    fake_cluster.objects["/version"] = {"gitVersion": "v1.37.2"}
    return fake_cluster


def unpacked(path):
    with tarfile.open(path) as archive:
        return {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode()
            for entry in archive.getmembers()
        }


def test_no_planted_secret_is_in_the_archive_and_no_secret_is_read(tidegate, planted, tmp_path):
    path = tmp_path / "report.tgz"
    code, out, errors = tidegate("bundle", "qwen", "-f", path)
    files = unpacked(path)
    everything = "\n".join(files.values())

    assert (code, errors) == (0, "")
    assert f"{path}: {len(files)} files" in out
    for secret in (PLANTED, HUB_TOKEN, "hunter2"):
        assert secret not in everything
    assert "REDACTED" in files["logs/qwen-unified-a-1/engine.log"]
    assert not [call for call in planted.calls if "secrets" in call.path]
    assert {call.method for call in planted.calls} == {"GET"}


def test_it_has_what_a_bug_report_needs(tidegate, planted, tmp_path):
    path = tmp_path / "report.tgz"
    tidegate("bundle", "qwen", "-f", path)
    files = unpacked(path)

    assert {
        "README.txt",
        "versions.txt",
        "llmdeployment.yaml",
        "events.yaml",
        "objects/pods.yaml",
        "objects/configmaps.yaml",
        "logs/qwen-unified-a-1/engine.log",
        "logs/qwen-unified-a-1/engine.previous.log",
        "gates/qwen-gate-1/metrics.txt",
        "gates/qwen-gate-1/configz.txt",
        "gates/qwen-gate-1/podz.txt",
    } <= set(files)
    assert "kvTokens: 8192" in files["llmdeployment.yaml"]
    assert "Kubernetes v1.37.2" in files["versions.txt"]
    assert "stranger" not in files["events.yaml"]
    assert "tidegate_gate_requests_total" in files["gates/qwen-gate-1/metrics.txt"]
    assert files["README.txt"].count("\n  ") >= len(files) - 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_may_not_be_read_is_named_and_the_rest_is_there(tidegate, planted, tmp_path):
    path = tmp_path / "report.tgz"
    refusal = (403, {"message": "robin cannot list resource events"})
    planted.refuse[("GET", f"/api/v1/namespaces/{NAMESPACE}/events")] = refusal
    code, out, _ = tidegate("bundle", "qwen", "-f", path)
    files = unpacked(path)

    assert code == 0
    assert "could not be had" in out
    assert "events.yaml: robin cannot list resource events" in files["README.txt"]
    assert "llmdeployment.yaml" in files


def test_a_file_is_never_overwritten(tidegate, planted, tmp_path):
    path = tmp_path / "report.tgz"
    path.write_text("precious")
    code, _, errors = tidegate("bundle", "qwen", "-f", path)

    assert (code, path.read_text()) == (1, "precious")
    assert "is there already; give another name with -f" in errors


def test_without_the_deployment_there_is_no_archive(tidegate, planted, tmp_path):
    path = tmp_path / "report.tgz"
    code, _, errors = tidegate("bundle", "missing", "-f", path)

    assert (code, path.exists()) == (1, False)
    assert errors.count("\n") == 1
