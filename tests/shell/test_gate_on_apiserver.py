"""The gate's objects on a real API server, applied with just the operator's own permissions."""

import json

import pytest
import yaml
from tests.shell.conftest import kubectl
from tests.unit.core.render import deployments

from tidegate.core import differs
from tidegate.core.render import render
from tidegate.shell import install
from tidegate.shell.resources import BY_KIND

NAME = "test-gate-operator"
ACCOUNT = f"system:serviceaccount:default:{NAME}"


@pytest.fixture(scope="module")
def operator(kubeconfig):
    """The operator's permissions, bound to an account of this test."""
    role = next(d for d in install.manifests("img", "tg", 1) if d["kind"] == "ClusterRole")
    role["metadata"] = {"name": NAME}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
    }
    kubectl("apply", "-f", "-", input=yaml.safe_dump_all([role, binding]))
    yield ACCOUNT
    kubectl("delete", "clusterrolebinding,clusterrole", NAME)


def objects(namespace):
    said = {
        "service": {"annotations": {"example.com/a": "b"}},
        "keysSecretRef": {"name": "keys", "key": "k"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
    }
    asked = deployments.pair(gate=said)
    owner = render.Owner(namespace, "qwen", None)
    return [
        differs.stamp(document) for document in render.render(owner, asked, deployments.plan(asked))
    ]


def applied(operator, document, *words):
    return kubectl(
        *("apply", "--server-side", "--force-conflicts", f"--as={operator}", "-f", "-", *words),
        input=json.dumps(document),
        check=False,
    )


def test_the_operator_may_make_everything_and_then_finds_nothing_to_write(operator, namespace):
    documents = objects(namespace)
    for document in documents:
        answer = applied(operator, document)
        assert answer.returncode == 0, answer.stderr

    for document in documents:
        place = BY_KIND[document["kind"]].path(namespace, document["metadata"]["name"])
        live = json.loads(kubectl("get", "--raw", place, f"--as={operator}").stdout)
        assert not differs.differs(document, live), (document["kind"], document["metadata"]["name"])


def test_the_operator_cannot_give_a_gate_more_than_it_has(operator, namespace):
    role = next(document for document in objects(namespace) if document["kind"] == "Role")
    role["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]})

    answer = applied(operator, role)

    assert answer.returncode != 0
    assert "attempting to grant RBAC permissions not currently held" in answer.stderr


def test_the_gates_pods_are_allowed_where_pods_must_be_restricted(namespace):
    kubectl("label", "ns", namespace, "pod-security.kubernetes.io/enforce=restricted")
    for document in objects(namespace):
        if document["kind"] == "Deployment":
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "tried", "namespace": namespace},
                "spec": document["spec"]["template"]["spec"] | {"serviceAccountName": "default"},
            }
            answer = kubectl(
                "create", "--dry-run=server", "-f", "-", input=json.dumps(pod), check=False
            )
            assert "violates PodSecurity" not in answer.stderr
            assert answer.returncode == 0 or "serviceaccount" in answer.stderr, answer.stderr


def test_a_gate_may_read_its_own_configuration_and_no_other(operator, namespace):
    for document in objects(namespace):
        if document["kind"] in ("Role", "RoleBinding", "ServiceAccount", "ConfigMap"):
            assert applied(operator, document).returncode == 0
    gate = f"--as=system:serviceaccount:{namespace}:qwen-gate"

    def may(*words):
        return kubectl("auth", "can-i", *words, gate, "-n", namespace, check=False).stdout.strip()

    assert may("watch", "configmaps/qwen-gate") == "yes"
    assert may("list", "endpointslices.discovery.k8s.io") == "yes"
    for words in (
        ("get", "configmaps/other"),
        ("list", "configmaps"),
        ("get", "secrets"),
        ("list", "pods"),
        ("patch", "configmaps/qwen-gate"),
        ("list", "endpointslices.discovery.k8s.io", "--all-namespaces"),
    ):
        assert may(*words) == "no", words
