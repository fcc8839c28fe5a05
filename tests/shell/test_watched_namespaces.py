"""An operator that watches some namespaces, with the rights that the chart gives it for that."""

import json
import os
import subprocess
import sys
import time
import uuid

import pytest
import yaml
from tests.chart import helm
from tests.shell.conftest import kubectl

PORT = 18096
OF_PERMISSIONS = (*("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),)


@pytest.fixture
def own_namespace(kubeconfig):
    name = f"test-own-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def account(kubeconfig, namespace, own_namespace, tmp_path):
    """A kubeconfig of the operator's account, which has the chart's rights in one namespace."""
    objects = [
        document
        for document in helm.render({"config": {"watchNamespaces": [namespace]}}, own_namespace)
        if document["kind"] in OF_PERMISSIONS and not helm.is_hook(document)
    ]
    kubectl("apply", "-f", "-", input=json.dumps(listed(objects)))
    token = kubectl("create", "token", "tidegate", "-n", own_namespace).stdout
    config = yaml.safe_load(kubectl("config", "view", "--raw", "--minify").stdout)
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield str(path)
    of_cluster = [document for document in objects if "namespace" not in document["metadata"]]
    kubectl("delete", "-f", "-", "--wait=false", input=json.dumps(listed(of_cluster)))


@pytest.fixture
def operator(account, namespace, own_namespace, tmp_path):
    """Run the operator as that account; gives what it logs."""
    settings = {
        "httpPort": PORT,
        "namespace": own_namespace,
        "watchNamespaces": [namespace],
        "webhook": {"enabled": False},
    }
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", "run", "--config", str(path)],
            stderr=file,
            env={**os.environ, "KUBECONFIG": account},
        )
    yield log
    process.kill()
    process.wait()


def listed(objects):
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def observed(namespace):
    path = "jsonpath={.status.observedGeneration}"
    return kubectl("get", "llmd", "qwen", "-n", namespace, "-o", path).stdout


def test_it_serves_where_it_watches_and_is_never_refused(
    operator, account, namespace, own_namespace, deployment
):
    """No node is there, so a status and an Event are all that it has to write."""
    elsewhere = {**deployment, "metadata": {"name": "qwen", "namespace": own_namespace}}
    kubectl("apply", "-f", "-", input=json.dumps(listed([deployment, elsewhere])))
    end = time.monotonic() + 60
    while observed(namespace) != "1":
        assert time.monotonic() < end, operator.read_text()
        time.sleep(0.2)

    assert observed(own_namespace) == ""
    lines = [json.loads(line) for line in operator.read_text().splitlines()]
    refused = [line for line in lines if "forbidden" in json.dumps(line).lower()]
    assert refused == []


@pytest.mark.parametrize(
    ("verb", "resource", "is_watched", "may"),
    [
        ("create", "deployments.apps", True, "yes"),
        ("create", "deployments.apps", False, "no"),
        ("get", "secrets", True, "yes"),
        ("get", "secrets", False, "no"),
        ("list", "pods", False, "no"),
        ("list", "llmdeployments.tidegate.io", False, "no"),
    ],
)
def test_the_api_server_gives_it_nothing_elsewhere(
    account, namespace, verb, resource, is_watched, may
):
    place = namespace if is_watched else "default"
    words = ("auth", "can-i", verb, resource, "-n", place, f"--kubeconfig={account}")

    assert kubectl(*words, check=False).stdout.strip() == may
