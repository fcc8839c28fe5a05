"""The gate's objects: safe, spread, reachable, and told what the user said."""

import pytest

from tidegate.api.gate_config import GateConfig
from tidegate.core import names
from tidegate.core.render.gate import Image
from tidegate.core.render.network import Readers
from tidegate.errors import Refused

from . import deployments

KINDS = {
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "ConfigMap",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
}


def gate(**said):
    return deployments.gate_objects(deployments.spec(gate=said))


def pod(**said):
    return gate(**said)["Deployment"]["spec"]["template"]["spec"]


def container(**said):
    (found,) = pod(**said)["containers"]
    return found


def test_there_is_a_gate_by_default_with_all_that_it_needs():
    objects = gate()

    assert set(objects) == KINDS
    assert objects["Deployment"]["spec"]["replicas"] == 2
    config = GateConfig.model_validate_json(objects["ConfigMap"]["data"]["gate.json"])
    assert config.deployment == "qwen"


def test_a_gate_that_is_off_leaves_no_object():
    assert gate(enabled=False) == {}


def test_clients_find_it_by_the_deployments_own_name():
    service = gate(service={"port": 8000, "type": "LoadBalancer", "annotations": {"a/b": "c"}})[
        "Service"
    ]

    assert service["metadata"]["name"] == "qwen"
    assert service["metadata"]["annotations"] == {"a/b": "c"}
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["ports"] == [
        {"name": "http", "port": 8000, "protocol": "TCP", "targetPort": "http"}
    ]


def test_selectors_match_the_gates_and_no_engine():
    documents = deployments.rendered(deployments.pair())
    engines = [
        d["spec"]["template"]["metadata"]["labels"]
        for d in deployments.of_kind(documents, "Deployment")
    ]
    objects = gate()
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]

    for selector in (
        objects["Service"]["spec"]["selector"],
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not any(selector.items() <= other.items() for other in engines)
    for service in deployments.of_kind(documents, "Service"):
        assert not service["spec"]["selector"].items() <= labels.items()


def test_it_may_read_its_own_configuration_and_endpoints_and_nothing_else():
    objects = gate()
    rules = objects["Role"]["rules"]

    assert [(r["resources"], r.get("resourceNames")) for r in rules] == [
        (["configmaps"], [objects["ConfigMap"]["metadata"]["name"]]),
        (["endpointslices"], None),
    ]
    assert all(r["verbs"] == ["get", "list", "watch"] for r in rules)
    account = objects["ServiceAccount"]["metadata"]["name"]
    assert objects["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": "chat"}
    ]
    assert objects["RoleBinding"]["roleRef"]["name"] == objects["Role"]["metadata"]["name"]
    assert pod()["serviceAccountName"] == account


def test_it_is_within_the_restricted_pod_security_standard():
    spec, own = pod(keysSecretRef={"name": "keys", "key": "k"}), container()

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(set(v) - {"name"} <= {"emptyDir", "secret"} for v in spec["volumes"])
    assert all("sizeLimit" in v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v)


def test_it_runs_the_operators_image_and_is_told_where_it_is():
    objects = deployments.gate_objects(deployments.spec(), gate_image=Image("registry/tidegate:1"))
    (found,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]

    assert found["image"] == "registry/tidegate:1"
    assert found["args"] == [
        "gate",
        "--namespace=chat",
        "--deployment=qwen",
        "--port=8080",
        "--admin-port=9090",
        "--state-dir=/var/lib/tidegate",
    ]
    ports = {entry["name"]: entry["containerPort"] for entry in found["ports"]}
    assert ports == {"http": 8080, "admin": 9090}
    writable = {mount["mountPath"] for mount in found["volumeMounts"]}
    assert "/var/lib/tidegate" in writable


def test_keys_come_from_the_secret_and_follow_it():
    said = {"keysSecretRef": {"name": "keys", "key": "tenants.yaml"}}
    (volume,) = [v for v in pod(**said)["volumes"] if "secret" in v]
    (mount,) = [m for m in container(**said)["volumeMounts"] if m["name"] == volume["name"]]

    assert volume["secret"]["secretName"] == "keys"
    assert "subPath" not in mount, "a file by subPath never changes"
    assert f"--keys-file={mount['mountPath']}/tenants.yaml" in container(**said)["args"]
    assert not any("--keys-file" in argument for argument in container()["args"])


@pytest.mark.parametrize(("drain", "grace"), [("30s", 40), ("0.5s", 11), ("10m", 610)])
def test_what_is_in_flight_has_its_drain_before_the_pod_is_killed(drain, grace):
    spec = pod(deadlines={"drain": drain})

    assert spec["terminationGracePeriodSeconds"] == grace
    assert spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 5


def test_no_gate_goes_before_another_is_ready_and_they_spread_over_nodes():
    objects = gate()
    spec = objects["Deployment"]["spec"]

    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"]["matchLabels"] == names.gate_labels("qwen")
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_the_pod_is_placed_and_shaped_as_the_user_says():
    spec = pod(
        nodeSelector={"role": "edge"},
        tolerations=[{"key": "a", "operator": "Exists"}],
        resources={"requests": {"cpu": "2"}},
        podTemplate={
            "labels": {"team": "x"},
            "annotations": {"note": "y"},
            "priorityClassName": "high",
        },
    )
    metadata = gate(podTemplate={"labels": {"team": "x"}})["Deployment"]["spec"]["template"]

    assert spec["nodeSelector"] == {"role": "edge"}
    assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert spec["priorityClassName"] == "high"
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "2"},
        "limits": {"memory": "512Mi"},
    }
    assert metadata["metadata"]["labels"]["team"] == "x"


@pytest.mark.parametrize(
    "said",
    [
        {"podTemplate": {"labels": {"tidegate.io/pool": "unified"}}},
        {"podTemplate": {"labels": {"app.kubernetes.io/component": "engine"}}},
        {"podTemplate": {"annotations": {"tidegate.io/applied": "x"}}},
        {"service": {"annotations": {"tidegate.io/applied": "x"}}},
    ],
)
def test_a_label_or_annotation_of_tidegates_own_is_refused(said):
    with pytest.raises(Refused, match=r"tidegate|app.kubernetes.io") as refused:
        gate(**said)

    assert refused.value.field == "spec.gate"


def test_clients_reach_its_port_from_anywhere_and_only_readers_its_admin_port():
    documents = deployments.gate_objects(
        deployments.spec(), readers=Readers(operator_namespace="ops")
    )
    clients, scraper, operator = documents["NetworkPolicy"]["spec"]["ingress"]

    assert clients == {"ports": [{"protocol": "TCP", "port": 8080}]}
    for rule in (scraper, operator):
        assert rule["ports"] == [{"protocol": "TCP", "port": 9090}]
        assert rule["from"]
    assert operator["from"][0]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "ops"
    }


@pytest.mark.parametrize("length", [1, 46, 63])
def test_names_stay_within_kubernetes_limits_and_apart_from_those_of_the_pools(length):
    name = "q" * length

    assert len(names.gate_name(name)) <= 63
    assert len(names.gate_workload_name(name)) + 17 <= 63
    pools = {names.pool_name(name, pool) for pool in ("unified", "prefill", "decode")}
    assert not {name, names.gate_name(name), names.gate_workload_name(name)} & pools
