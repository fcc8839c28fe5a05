"""The CustomResourceDefinition on a real API server, without the webhook: what users see of it."""

import json
import uuid
from pathlib import Path

import pytest
import yaml
from tests.shell.conftest import kubectl
from tests.unit.api import cases

from tidegate.api import crd, llmdeployment, quantities

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.yaml"))
SAYS_ITSELF = "another deployment"
QUERY = "dryRun=All&fieldValidation=Strict"


def create(namespace, document):
    """Send a document as kubectl does by default, but keep nothing of it."""
    path = f"/apis/tidegate.io/v1alpha1/namespaces/{namespace}/llmdeployments?{QUERY}"
    return kubectl("create", "--raw", path, "-f", "-", input=json.dumps(document), check=False)


def apply(namespace, document):
    return kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(document))


@pytest.fixture(scope="module")
def shared_namespace(kubeconfig):
    """One namespace for all documents that are only tried."""
    name = f"test-crd-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize(
    "case", [case for case in cases.REFUSED if not case.python_only], ids=lambda case: case.name
)
def test_the_api_server_refuses_what_the_models_refuse(shared_namespace, case):
    answer = create(shared_namespace, case.document)

    assert answer.returncode != 0, answer.stdout
    assert (case.server_says or case.says) in answer.stderr


@pytest.mark.parametrize("field", ["spec.overload.shift.to", "spec.overload.override.to"])
def test_the_api_server_names_the_field_that_shifts_to_itself(shared_namespace, field):
    [case] = [case for case in cases.REFUSED if (case.field, case.says) == (field, SAYS_ITSELF)]

    answer = create(shared_namespace, case.document)

    assert f"{field}: Invalid value" in answer.stderr


@pytest.mark.parametrize("case", cases.ACCEPTED, ids=lambda case: case.name)
def test_the_api_server_accepts_what_the_models_accept(shared_namespace, case):
    answer = create(shared_namespace, case.document)

    assert answer.returncode == 0, answer.stderr
    stored = json.loads(answer.stdout)
    assert llmdeployment.parse(stored).spec == llmdeployment.parse(case.document).spec


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_api_server_accepts_every_example(shared_namespace, example):
    documents = yaml.safe_load_all(example.read_text("utf-8"))
    ours = [document for document in documents if document["kind"] == "LLMDeployment"]

    assert ours
    for document in ours:
        llmdeployment.parse(document)
        document["metadata"]["namespace"] = shared_namespace
        answer = create(shared_namespace, document)
        assert answer.returncode == 0, answer.stderr


def test_the_api_server_fills_in_the_documented_defaults(shared_namespace):
    stored = json.loads(create(shared_namespace, cases.base()).stdout)

    assert stored["spec"] == llmdeployment.parse(cases.base()).wire()["spec"]
    assert stored["spec"]["kvCache"]["transfer"] == {
        "connector": "Nixl",
        "bandwidth": "25Gi",
        "lease": "30s",
        "failurePolicy": "recompute",
    }


def test_the_largest_document_stays_within_the_budget_of_the_rules(shared_namespace):
    text = "a" * 4096
    labels = {f"{'a' * 60}.example.com/label-{number}": "a" * 63 for number in range(32)}
    pool = {
        "replicas": 16,
        "nodeSelector": labels,
        "nodeAffinity": [{"key": "a", "operator": "In", "values": ["b" * 63] * 64}] * 32,
        "tolerations": [{"key": "a" * 63, "value": "b" * 63}] * 32,
        "nodeClasses": [{"product": f"A{number}", "replicas": 1} for number in range(16)],
        "podTemplate": {"labels": labels, "annotations": dict.fromkeys(labels, text)},
    }
    env = [{"name": f"A{number}", "value": text + text} for number in range(64)]
    document = cases.changed(
        {
            "spec.engine.env": env,
            "spec.engine.extraArgs": [text] * 64,
            "spec.model.servedNames": [f"{'é' * 250}{number}" for number in range(16)],
            "spec.pools": {"prefill": pool, "decode": pool},
        }
    )
    llmdeployment.parse(document)

    answer = create(shared_namespace, document)

    assert answer.returncode == 0, answer.stderr[-2000:]


def test_kubectl_shows_an_unplanned_deployment(namespace, deployment):
    apply(namespace, deployment)

    short = kubectl("get", "llmd", "-n", namespace).stdout
    wide = kubectl("get", "llm", "-n", namespace, "-o", "wide").stdout

    columns, *_ = short.splitlines()
    assert columns.split()[-4:] == ["OVERLOAD", "ROLLOUT", "REASON", "AGE"]
    assert columns.split()[:5] == ["NAME", "READY", "MODE", "PODS", "KV-TOKENS"]
    assert wide.splitlines()[0].split()[-4:] == ["MODEL", "CONCURRENCY", "REVISION", "ADDRESS"]
    assert "Qwen/Qwen3-0.6B" in wide


def test_kubectl_refuses_an_unknown_field_by_itself(namespace, deployment):
    deployment["spec"]["engine"]["maxModelLength"] = 1

    answer = kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(deployment), check=False)

    assert answer.returncode != 0
    assert 'unknown field "spec.engine.maxModelLength"' in answer.stderr


def test_kubectl_explains_every_field_with_its_description(kubeconfig):
    engine = kubectl("explain", "llmd.spec.engine").stdout
    node_class = kubectl("explain", "llmd.spec.pools.decode.nodeClasses.product").stdout

    assert "Container image of vLLM" in engine
    assert "GPU product as the node's label tells it" in node_class


def test_the_status_is_a_subresource_and_the_spec_has_generations(namespace, deployment):
    apply(namespace, deployment)
    resource = f"llmd/{deployment['metadata']['name']}"
    status = {"status": {"observedGeneration": 1, "mode": "Unified", "kvTokens": 5}}

    kubectl("patch", resource, "-n", namespace, "--type=merge", "-p", json.dumps(status))
    ignored = json.loads(kubectl("get", resource, "-n", namespace, "-o", "json").stdout)
    kubectl(
        *("patch", resource, "-n", namespace, "--subresource=status"),
        *("--type=merge", "-p", json.dumps(status)),
    )
    written = json.loads(kubectl("get", resource, "-n", namespace, "-o", "json").stdout)

    assert "status" not in ignored
    assert written["status"]["kvTokens"] == 5
    assert written["metadata"]["generation"] == 1


def test_there_is_no_scale_subresource(kubeconfig):
    (version,) = json.loads(
        kubectl("get", "crd", "llmdeployments.tidegate.io", "-o", "json").stdout
    )["spec"]["versions"]

    assert version["subresources"] == {"status": {}}


def test_the_stored_definition_is_the_generated_one(kubeconfig):
    stored = json.loads(kubectl("get", "crd", "llmdeployments.tidegate.io", "-o", "json").stdout)

    assert (
        stored["spec"]["versions"][0]["schema"] == crd.definition()["spec"]["versions"][0]["schema"]
    )


QUANTITIES = [
    *("0", "0Ki", "0.0", "00", "+5", ".5", "5.", "1.5", "1.500", "1.234", "1000", "1500m"),
    *("1000m", "1e3", "1E3", "1e0", "1e-3", "15e-1", "100e-3", "1.5e3", "1e6", "12e2", "1E"),
    *("1.5Gi", "1.25Gi", "1.250Gi", "0.5Ki", "0.5Gi", "62.5Ki", "2000Ki", "1000Ki", "1024Ki"),
    *("8Gi", "010Gi", "007", "1000000k", "1.5M", "0.001k", "100000m", "0.3Ki", "1.7Ki", "1536"),
    *("1536Ki", "3000000000n", "1.0", "2.50", "200.0Mi", "5e5", "1.1E1", "1e2", "0.001", "1Ei"),
    *("1234567", "12345678901234567", "40Gi", "16384Mi", "4", "250m", "999999999999999999"),
]


def test_quantities_are_spelled_so_that_the_api_server_leaves_them_alone(shared_namespace):
    """Pods' amounts are compared as text: one that came back changed would be applied for ever."""
    canonical = [quantities.parse_resource(text) for text in QUANTITIES]

    def stored(amounts):
        containers = [
            {"name": f"c{n}", "image": "i", "resources": {"limits": {"memory": amount}}}
            for n, amount in enumerate(amounts)
        ]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
        path = f"/api/v1/namespaces/{shared_namespace}/pods?dryRun=All"
        document = {**pod, "spec": {"containers": containers}}
        answer = kubectl("create", "--raw", path, "-f", "-", input=json.dumps(document))
        found = json.loads(answer.stdout)["spec"]["containers"]
        return [container["resources"]["limits"]["memory"] for container in found]

    assert stored(canonical) == canonical
    assert [*map(quantities.parse_quantity, stored(QUANTITIES))] == [
        *map(quantities.parse_quantity, canonical)
    ]
