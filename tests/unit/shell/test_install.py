"""What installs the operator, and the settings that it reads."""

import itertools

import pytest

from tidegate.core.render import templates
from tidegate.errors import Invalid
from tidegate.shell import install, settings
from tidegate.shell.resources import (
    BY_KIND,
    CERTIFICATE_RULES,
    LEASE_RULES,
    NAMED_RULES,
    OWNED_KINDS,
    RULES,
)


def test_permissions_are_in_order_and_none_is_given_twice():
    for table in (RULES, LEASE_RULES):
        keys = [(group, resource) for group, resource, _ in table]
        assert keys == sorted(set(keys))
        assert all(list(verbs) == sorted(set(verbs)) for _, _, verbs in table)


def test_every_kind_that_is_applied_may_be_applied_watched_and_deleted():
    allowed = {resource: set(verbs) for _, resource, verbs in RULES}

    for kind in OWNED_KINDS:
        assert {"patch", "create", "delete", "list", "watch"} <= allowed[BY_KIND[kind].plural]


def test_nothing_may_be_done_with_pods_and_secrets_but_reading():
    allowed = {resource: set(verbs) for _, resource, verbs in RULES}

    assert allowed["secrets"] == {"get"}
    assert allowed["pods"] <= {"get", "list", "watch"}


def test_a_gate_is_given_no_right_that_the_operator_lacks_and_none_by_escalation():
    allowed = {(group, resource): set(verbs) for group, resource, verbs in RULES}
    values = {"name": "chat-gate", "namespace": "default"}

    for rule in templates.fill("gate-role.yaml.j2", values)["rules"]:
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            assert set(rule["verbs"]) <= allowed[group, resource]
    assert not {"escalate", "bind", "impersonate", "*"} & {
        v for verbs in allowed.values() for v in verbs
    }


def hooks():
    """The webhooks of both configurations, and the Deployment that answers them."""
    documents = install.manifests("img:1", "tg", 2)
    configurations = [d for d in documents if d["kind"].endswith("WebhookConfiguration")]
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    return [hook for found in configurations for hook in found["webhooks"]], deployment


def test_the_webhook_may_touch_its_own_configurations_and_certificates_and_no_others():
    written = [rule for rule in (*NAMED_RULES, *CERTIFICATE_RULES) if rule[2] != ("create",)]

    assert {names for *_, names in written} == {("tidegate",), ("tidegate-webhook-tls",)}
    assert not any("delete" in verbs or "list" in verbs for _, _, verbs, _ in written)
    assert ("authorization.k8s.io", "subjectaccessreviews", ("create",)) in RULES


def test_the_webhook_is_asked_for_our_kind_alone_and_never_for_kube_system():
    found, _ = hooks()

    assert [hook["name"] for hook in found] == ["mutate.tidegate.io", "validate.tidegate.io"]
    for hook in found:
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"]) == (["tidegate.io"], ["llmdeployments"])
        assert rule["operations"] == ["CREATE", "UPDATE"]
        excluded = hook["namespaceSelector"]["matchExpressions"]
        assert {(e["key"], e["operator"], *e["values"]) for e in excluded} == {
            ("kubernetes.io/metadata.name", "NotIn", "kube-system"),
            ("tidegate.io/admission", "NotIn", "skip"),
        }
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Fail", "None")
        assert "caBundle" not in hook["clientConfig"], "that is the operator's to fill"


def test_the_service_of_the_webhook_leads_to_the_port_that_the_settings_open():
    found, deployment = hooks()
    documents = install.manifests("img:1", "tg", 2)
    (service,) = (d for d in documents if d["kind"] == "Service")
    pod = deployment["spec"]["template"]
    ports = {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}
    asked = settings.OperatorSettings().webhook

    assert {hook["clientConfig"]["service"]["name"] for hook in found} == {asked.service}
    assert service["metadata"]["name"] == asked.service
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert ports[service["spec"]["ports"][0]["targetPort"]] == asked.port
    assert {d["metadata"]["name"] for d in documents if "webhooks" in d} == {asked.configuration}


def test_gates_run_the_image_that_the_operator_is_told_it_runs(monkeypatch):
    deployment = next(d for d in install.manifests("img:1", "tg", 2) if d["kind"] == "Deployment")
    (variable,) = deployment["spec"]["template"]["spec"]["containers"][0]["env"]

    monkeypatch.setenv(variable["name"], variable["value"])

    assert settings.OperatorSettings().for_pass().gate_image == "img:1"
    assert settings.OperatorSettings(gate_image="img:2").for_pass().gate_image == "img:2"


def test_the_manifests_hold_the_image_and_the_permissions():
    objects = {document["kind"]: document for document in install.manifests("img:1", "tg", 2)}
    container = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]

    assert container["image"] == "img:1"
    assert len(objects["ClusterRole"]["rules"]) == len(RULES) + len(NAMED_RULES)
    assert len(objects["Role"]["rules"]) == len(LEASE_RULES) + len(CERTIFICATE_RULES)
    assert objects["ClusterRoleBinding"]["subjects"][0]["namespace"] == "tg"


def test_engines_let_in_the_pods_that_are_installed():
    deployment = next(d for d in install.manifests("img:1", "tg", 2) if d["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    told = settings.OperatorSettings(namespace="tg").for_pass()

    assert dict(told.operator_pod_labels) == labels
    assert told.operator_namespace == "tg"


def test_settings_are_read_and_defaults_hold(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(
        "resync: 5s\nnodeClasses:\n- matchLabels: {pool: dgx}\n  product: NVIDIA-GB10\n"
        "  memory: 120Gi\n  computeCapability: '12.1'\n"
    )
    loaded = settings.load(path)

    assert loaded.resync == 5
    assert loaded.for_pass().node_classes[0].compute_capability == (12, 1)
    assert settings.load(None).concurrency == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resinc: 5s", "resinc: unknown field"),
        ("httpPort: 99999", "httpPort"),
        ("{", "cannot be read"),
        ("nodeClasses: [{product: x, memory: lots}]", r"nodeClasses\[0\]"),
        ("nodeClasses: [{product: x, resource: cpu}]", r"nodeClasses\[0\].resource"),
        ("nodeClasses: [{product: x, gpusPerIsland: 0}]", r"nodeClasses\[0\].gpusPerIsland"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, text, message):
    path = tmp_path / "settings.yaml"
    path.write_text(text)

    with pytest.raises(Invalid, match=message):
        settings.load(path)
