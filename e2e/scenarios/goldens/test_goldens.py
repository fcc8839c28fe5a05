"""What is rendered, a real API server takes, and its pods pass Pod Security `restricted`."""

import json
from pathlib import Path

import pytest
import yaml

GOLDENS = sorted((Path(__file__).parents[3] / "tests" / "golden" / "rendered").glob("*.yaml"))


def dry_run(kube, text):
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    return kube.try_kubectl(*words, text=text)


def test_there_are_goldens():
    assert GOLDENS


@pytest.mark.parametrize("file", GOLDENS, ids=lambda file: file.stem)
def test_the_api_server_takes_every_object_as_it_is_written(kube, shared_namespace, file):
    found = yaml.safe_load_all(file.read_text(encoding="utf-8"))

    answer = dry_run(kube, listed(moved(document, shared_namespace) for document in found))

    assert answer.returncode == 0, answer.stderr
    assert "Warning" not in answer.stderr, answer.stderr


@pytest.mark.parametrize("file", GOLDENS, ids=lambda file: file.stem)
def test_the_pods_pass_restricted_pod_security(kube, shared_namespace, file):
    found = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    accounts = [moved(d, shared_namespace) for d in found if d["kind"] == "ServiceAccount"]
    pods = [pod_of(d, shared_namespace) for d in found if d["kind"] == "Deployment"]
    assert accounts
    assert pods

    kube.apply(shared_namespace, listed(accounts))
    answer = dry_run(kube, listed(pods))

    assert answer.returncode == 0, answer.stderr


def moved(document, namespace):
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def pod_of(deployment, namespace):
    """The pod that a Deployment makes, without classes that only its own cluster has."""
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": deployment["metadata"]["name"]}
    other = ("priorityClassName", "runtimeClassName")
    spec = {key: value for key, value in template["spec"].items() if key not in other}
    return moved({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace)


def listed(documents):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
