"""Whatever the values are, what is rendered is right."""

import itertools

import pytest
import yaml
from tests.chart import helm
from tests.chart.helm import CHART, IMAGE, NAMESPACE, is_hook, one, render

from tidegate.core.admission import pod_security
from tidegate.shell import install, settings

OWN = {"webhook": {"certManager": {"enabled": False}}}
CERT_MANAGER = {"webhook": {"certManager": {"enabled": True}}}
NO_WEBHOOK = {"webhook": {"enabled": False}}
VALUES = {
    "defaults": {},
    "cert-manager": CERT_MANAGER,
    "cert-manager, issuer of the cluster": {
        "webhook": {
            "certManager": {"enabled": True, "issuer": {"name": "ca", "kind": "ClusterIssuer"}}
        }
    },
    "no webhook": NO_WEBHOOK,
    "as little as can be": {
        **NO_WEBHOOK,
        "replicas": 1,
        "crds": {"install": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "spreadOver": [],
    },
    "other ports": {"config": {"httpPort": 8081}, "webhook": {"port": 8443}},
    "nodes": {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
    },
    "pinned": {
        "image": IMAGE | {"digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "registry"}],
        "podAnnotations": {"example.com/team": "serving"},
        "serviceAccount": {"annotations": {"example.com/role": "tidegate"}},
    },
    "a token for Prometheus": {
        "extraVolumes": [{"name": "token", "secret": {"secretName": "prometheus-token"}}],
        "extraVolumeMounts": [{"name": "token", "mountPath": "/run/token", "readOnly": True}],
    },
    "settings": {
        "config": {
            "resync": "90s",
            "budgetDriftPercent": 2.5,
            "gateImage": "registry.example.com/gate:2",
            "scraper": {"namespaceLabels": {"name": "monitoring"}},
            "admission": {"enforcement": "Warn", "registries": ["ghcr.io"], "digestsOnly": True},
            "nodeClasses": [
                {"matchLabels": {"pool": "a"}, "product": "NVIDIA-H100", "memory": 85899345920},
                {"matchLabels": {"pool": "b"}, "product": "NVIDIA-L4", "memory": "22Gi"},
            ],
        },
    },
}


@pytest.fixture(scope="module", params=VALUES)
def case(request):
    """Values, and what they lead to."""
    values = VALUES[request.param]
    return values, render(values)


def _loaded(documents, tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(one(documents, "ConfigMap")["data"]["settings.yaml"])
    return settings.load(path)


def test_volumes_that_are_added_come_beside_our_own():
    values = VALUES["a token for Prometheus"]
    pod = one(render(values), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert [volume["name"] for volume in pod["volumes"]] == ["settings", "token"]
    assert container["volumeMounts"][-1] == values["extraVolumeMounts"][0]


def test_no_object_is_rendered_twice_and_each_says_where_it_goes(case):
    _, documents = case
    keys = [(d["kind"], d["metadata"]["name"]) for d in documents]
    of_cluster = {
        "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    }  # fmt: skip

    assert len(keys) == len(set(keys))
    for document in documents:
        wanted = None if document["kind"] in of_cluster else NAMESPACE
        assert document["metadata"].get("namespace") == wanted


def test_the_operator_reads_the_settings_that_were_given(case, tmp_path):
    values, documents = case
    given = {key: value for key, value in values.get("config", {}).items() if key != "scraper"}
    loaded = _loaded(documents, tmp_path)

    assert loaded.namespace == NAMESPACE
    assert loaded.leader_election
    told = loaded.wire()
    if given.pop("nodeClasses", None):
        assert [entry.memory for entry in loaded.node_classes] == [85899345920, 22 * 2**30]
    assert {key: told[key] for key in given} == given


def test_ports_of_pod_probe_policy_and_settings_agree(case, tmp_path):
    _, documents = case
    loaded = _loaded(documents, tmp_path)
    container = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    wanted = {"http": loaded.http_port}
    if loaded.webhook.enabled:
        wanted["webhook"] = loaded.webhook.port

    assert {port["name"]: port["containerPort"] for port in container["ports"]} == wanted
    assert container["readinessProbe"]["httpGet"]["port"] == "http"
    for policy in (d for d in documents if d["kind"] == "NetworkPolicy"):
        opened = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
        assert opened == list(wanted.values())


def test_every_pod_keeps_to_pod_security_restricted(case):
    _, documents = case
    pods = [
        one(documents, "Deployment")["spec"]["template"],
        one(documents, "Pod", "tidegate-test"),
    ]

    for pod in pods:
        assert list(pod_security.violations(pod)) == []
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


def test_selectors_find_the_operators_pods_and_not_the_one_of_the_test(case):
    _, documents = case
    labels = one(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    of_test = one(documents, "Pod", "tidegate-test")["metadata"]["labels"]
    selectors = [
        *(d["spec"]["selector"]["matchLabels"] for d in documents if d["kind"] == "Deployment"),
        *(d["spec"]["selector"]["matchLabels"] for d in documents if "Budget" in d["kind"]),
        *(d["spec"]["selector"] for d in documents if d["kind"] == "Service"),
        *(d["spec"]["podSelector"]["matchLabels"] for d in documents if "Policy" in d["kind"]),
    ]

    assert selectors
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= of_test.items()


def test_a_webhook_never_stands_in_the_way_of_kube_system_or_of_other_kinds(case):
    values, documents = case
    hooks = [
        hook
        for document in documents
        if "WebhookConfiguration" in document["kind"]
        for hook in document["webhooks"]
    ]

    assert len(hooks) == (0 if values.get("webhook", {}).get("enabled") is False else 2)
    for hook in hooks:
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"]) == (["tidegate.io"], ["llmdeployments"])
        by_name, _ = hook["namespaceSelector"]["matchExpressions"]
        assert by_name["operator"] == "NotIn"
        assert "kube-system" in by_name["values"]


def test_namespaces_can_be_exempt():
    documents = render({"webhook": {"exemptNamespaces": ["sandbox"]}})
    (hook,) = one(documents, "ValidatingWebhookConfiguration")["webhooks"]

    names = hook["namespaceSelector"]["matchExpressions"][0]["values"]
    assert sorted(names) == ["kube-system", "sandbox"]


def _rules(documents):
    """Return every permission of the operator: (where, group, resource, verb, name)."""
    return {
        (role["kind"], group, resource, verb, name)
        for role in documents
        if role["kind"] in ("ClusterRole", "Role") and not is_hook(role)
        for rule in role["rules"]
        for group, resource, verb, name in itertools.product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        )
    }


def test_the_permissions_are_those_of_the_table():
    assert _rules(render(OWN)) == _rules(install.manifests("img", NAMESPACE, 2))


@pytest.mark.parametrize("values", [CERT_MANAGER, NO_WEBHOOK], ids=["cert-manager", "no webhook"])
def test_who_keeps_no_certificates_may_not_write_them(values):
    fewer, all_of_them = _rules(render(values)), _rules(render(OWN))

    assert fewer < all_of_them
    assert not any("webhookconfigurations" in resource for _, _, resource, _, _ in fewer)
    assert {verb for _, _, resource, verb, _ in fewer if resource == "secrets"} == {"get"}


WATCHED = {"config": {"watchNamespaces": ["chat", "batch"]}}


def test_who_watches_some_namespaces_may_do_nothing_in_others():
    documents = render(WATCHED)
    of_cluster = {resource for kind, _, resource, *_ in _rules(documents) if kind == "ClusterRole"}
    in_namespaces = {
        d["metadata"]["namespace"]: d["rules"]
        for d in documents
        if d["kind"] == "Role" and d["metadata"]["name"] == "tidegate-deployments"
    }

    assert of_cluster == {
        "nodes",
        "subjectaccessreviews",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }
    assert in_namespaces.keys() == {"chat", "batch"}
    assert in_namespaces["chat"] == in_namespaces["batch"]
    for name in in_namespaces:
        (bound,) = (
            d
            for d in documents
            if d["kind"] == "RoleBinding" and d["metadata"]["namespace"] == name and not is_hook(d)
        )
        assert bound["roleRef"]["name"] == "tidegate-deployments"
        assert bound["subjects"][0]["namespace"] == NAMESPACE


def test_who_watches_some_namespaces_has_all_the_same_rights_there():
    def rights(values):
        return {rule[1:] for rule in _rules(render(values))}

    assert rights(WATCHED) == rights(OWN)


def test_what_is_not_watched_is_not_reviewed(tmp_path):
    documents = render(WATCHED)

    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (hook,) = one(documents, kind)["webhooks"]
        only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["chat", "batch"]}
        assert only in hook["namespaceSelector"]["matchExpressions"]
    assert _loaded(documents, tmp_path).watch_namespaces == ["chat", "batch"]


def test_the_charts_own_test_asks_where_the_operator_watches():
    test = {d["kind"]: d for d in render(WATCHED) if is_hook(d)}
    (container,) = test["Pod"]["spec"]["containers"]

    assert {"name": "NAMESPACE", "value": "chat"} in container["env"]
    assert test["Role"]["metadata"]["namespace"] == "chat"
    assert test["RoleBinding"]["metadata"]["namespace"] == "chat"
    assert test["ServiceAccount"]["metadata"]["namespace"] == NAMESPACE


def _is_within(part, whole):
    """Say whether all that one document tells is told by another, too."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _is_within(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(part) == len(whole)
            and all(itertools.starmap(_is_within, zip(part, whole, strict=True)))
        )
    return part == whole


def test_the_chart_installs_what_tidegate_manifests_prints(tmp_path):
    documents = [document for document in render({}) if not is_hook(document)]
    image = f"{IMAGE['repository']}:{IMAGE['tag']}"
    plain = [d for d in install.manifests(image, NAMESPACE, 2) if d["kind"] != "Namespace"]
    path = tmp_path / "plain.yaml"

    for wanted in plain:
        found = one(documents, wanted["kind"], wanted["metadata"]["name"])
        if wanted["kind"] == "ConfigMap":
            path.write_text(wanted.pop("data")["settings.yaml"])
            assert _loaded(documents, tmp_path) == settings.load(path)
        elif "Role" in wanted["kind"] and "rules" in wanted:
            wanted.pop("rules")  # in another order: compared above
        assert _is_within(wanted, found), wanted["kind"]
    more = {d["kind"] for d in documents} - {d["kind"] for d in plain}
    assert more == {"CustomResourceDefinition", "NetworkPolicy"}


def test_changed_settings_replace_the_pods_and_nothing_else_does():
    def template(values):
        return one(render(values), "Deployment")["spec"]["template"]

    assert template({}) == template({"replicas": 3})
    assert template({}) != template({"config": {"concurrency": 4}})


def test_an_uninstall_leaves_the_definition_and_may_leave_it_to_others():
    (definition,) = (d for d in render({}) if d["kind"] == "CustomResourceDefinition")

    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    del definition["metadata"]["annotations"]
    shipped = next((helm.TOP / "crds").iterdir())
    assert definition == yaml.safe_load(shipped.read_text(encoding="utf-8"))
    kinds = {d["kind"] for d in render({"crds": {"install": False}})}
    assert "CustomResourceDefinition" not in kinds


def test_cert_manager_is_asked_for_the_name_by_which_reviews_come(tmp_path):
    documents = render(CERT_MANAGER)
    certificate = one(documents, "Certificate", "tidegate-webhook")
    hook = one(documents, "ValidatingWebhookConfiguration")
    service = hook["webhooks"][0]["clientConfig"]["service"]
    spec = one(documents, "Deployment")["spec"]["template"]["spec"]
    mounts = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
    secrets = {v["name"]: v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}

    assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    named = hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert named == f"{NAMESPACE}/{certificate['metadata']['name']}"
    assert secrets == {"certificate": certificate["spec"]["secretName"]}
    assert _loaded(documents, tmp_path).webhook.certificate_folder == mounts["certificate"]
    assert one(documents, "Issuer", certificate["spec"]["issuerRef"]["name"])


def test_the_chart_passes_helms_own_check():
    done = helm.run("lint", str(CHART), "--strict", "--set", "image.repository=registry.test/x")

    assert done.returncode == 0, done.stdout
