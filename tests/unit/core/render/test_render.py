"""The objects of a deployment as a whole."""

import copy
import itertools

import pytest

from tidegate.core import names
from tidegate.core.render import render
from tidegate.core.render.network import Readers

from . import deployments
from .deployments import A100, H100, of_kind, of_pools


def test_a_unified_pool_is_five_objects_and_a_pair_ten():
    kinds = ["ServiceAccount", "NetworkPolicy", "Service", "PodDisruptionBudget", "Deployment"]

    assert [d["kind"] for d in deployments.rendered(deployments.spec())] == kinds
    assert [d["kind"] for d in deployments.rendered(deployments.pair())] == [
        kind for kind in kinds for _ in range(2)
    ]


def test_each_class_of_node_gets_a_deployment_of_its_own():
    asked = deployments.spec()

    plan = deployments.plan(asked, (A100, H100))

    found = of_kind(of_pools(render.render(deployments.OWNER, asked, plan)), "Deployment")

    selectors = [d["spec"]["selector"]["matchLabels"] for d in found]
    assert len({d["metadata"]["name"] for d in found}) == 2
    for one, other in itertools.permutations(selectors, 2):
        assert one != other
        assert one.keys() == other.keys()  # so that no pod can match both


def test_the_same_input_gives_the_same_objects_and_nothing_is_shared_between_two_calls():
    first = deployments.rendered(deployments.pair())
    before = copy.deepcopy(first)
    first[0]["metadata"]["labels"]["x"] = "y"
    first[-1]["spec"]["template"]["spec"]["containers"][0]["args"].clear()

    assert deployments.rendered(deployments.pair()) == before


def test_replicas_are_the_plans_unless_the_rollout_says_otherwise():
    asked = deployments.pair()
    plan = deployments.plan(asked)
    scale = {("decode", deployments.node_class().name): 0}

    found = of_kind(of_pools(render.render(deployments.OWNER, asked, plan, scale)), "Deployment")

    replicas = {d["metadata"]["labels"][names.LABEL_POOL]: d["spec"]["replicas"] for d in found}
    assert replicas == {"prefill": 1, "decode": 0}


def test_every_object_is_owned_by_the_deployment_and_lies_in_its_namespace():
    for document in deployments.rendered(deployments.pair()):
        (owner,) = document["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "tidegate.io/v1alpha1",
            "kind": "LLMDeployment",
            "name": "qwen",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert document["metadata"]["namespace"] == "chat"
        assert document["metadata"]["labels"][names.LABEL_DEPLOYMENT] == "qwen"


def test_selectors_match_the_pods_that_they_mean():
    documents = deployments.rendered(deployments.pair())
    pods = {
        d["metadata"]["labels"][names.LABEL_POOL]: d["spec"]["template"]["metadata"]["labels"]
        for d in of_kind(documents, "Deployment")
    }

    def matches(selector, pool):
        return selector.items() <= pods[pool].items()

    for kind, path in (
        ("Service", lambda d: d["spec"]["selector"]),
        ("PodDisruptionBudget", lambda d: d["spec"]["selector"]["matchLabels"]),
        ("NetworkPolicy", lambda d: d["spec"]["podSelector"]["matchLabels"]),
        ("Deployment", lambda d: d["spec"]["selector"]["matchLabels"]),
    ):
        for document in of_kind(documents, kind):
            own = document["metadata"]["labels"][names.LABEL_POOL]
            other = "decode" if own == "prefill" else "prefill"
            assert matches(path(document), own)
            assert not matches(path(document), other)


def test_a_pod_runs_as_the_account_of_its_pool_which_has_no_token():
    documents = deployments.rendered(deployments.pair())

    accounts = {d["metadata"]["name"]: d for d in of_kind(documents, "ServiceAccount")}
    for document in of_kind(documents, "Deployment"):
        account = accounts[document["spec"]["template"]["spec"]["serviceAccountName"]]
        assert account["automountServiceAccountToken"] is False


def test_only_ready_pods_are_endpoints_and_there_is_no_address_in_between():
    (service,) = of_kind(deployments.rendered(deployments.spec()), "Service")

    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is False


def test_a_change_in_place_takes_one_pod_at_a_time_and_never_waits_for_a_gpu_that_it_holds():
    (deployment,) = of_kind(deployments.rendered(deployments.spec()), "Deployment")

    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_drain_takes_one_pod_at_a_time_and_is_not_held_up_by_one_that_does_not_serve():
    (budget,) = of_kind(deployments.rendered(deployments.spec()), "PodDisruptionBudget")

    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_preview_has_no_owner_because_nothing_is_applied_yet():
    asked = deployments.spec()

    found = render.render(render.Owner("chat", "qwen", None), asked, deployments.plan(asked))

    assert not any("ownerReferences" in document["metadata"] for document in found)


@pytest.mark.parametrize("length", [1, 46, 63])
def test_names_and_labels_stay_within_kubernetes_limits(length):
    asked = deployments.pair()
    owner = render.Owner("chat", "d" * length, "uid")

    for document in render.render(owner, asked, deployments.plan(asked)):
        limit = 46 if document["kind"] == "Deployment" else 63
        assert len(document["metadata"]["name"]) <= limit
        assert all(len(value) <= 63 for value in document["metadata"]["labels"].values())


# ------------------------------------------------------------------ who may connect


def _ingress(asked, pool, readers=None):
    documents = render.render(deployments.OWNER, asked, deployments.plan(asked), readers=readers)
    policies = {
        d["metadata"]["labels"][names.LABEL_POOL]: d
        for d in of_kind(of_pools(documents), "NetworkPolicy")
    }
    assert policies[pool]["spec"]["policyTypes"] == ["Ingress"]
    return policies[pool]["spec"]["ingress"]


def _ports(rule):
    return [(p["protocol"], p["port"], p.get("endPort")) for p in rule["ports"]]


def test_the_gate_prometheus_and_the_operator_reach_the_engines_port_and_nobody_else_does():
    gate, scraper, operator = _ingress(deployments.spec(), "unified")

    assert gate["from"] == [
        {
            "podSelector": {
                "matchLabels": {
                    "app.kubernetes.io/component": "gate",
                    "tidegate.io/deployment": "qwen",
                }
            }
        }
    ]
    assert scraper["from"] == [
        {
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
        }
    ]
    assert operator["from"] == [
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "tidegate-system"}
            },
            "podSelector": {
                "matchLabels": {
                    "app.kubernetes.io/name": "tidegate",
                    "app.kubernetes.io/component": "operator",
                }
            },
        }
    ]
    assert _ports(gate) == _ports(scraper) == _ports(operator) == [("TCP", 8000, None)]


@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_a_pair_reaches_each_others_side_channel_and_transfer_ports(pool):
    *_, partner = _ingress(deployments.pair(), pool)

    (peer,) = partner["from"]
    assert peer["podSelector"]["matchLabels"] == {"tidegate.io/deployment": "qwen"}
    (pools,) = peer["podSelector"]["matchExpressions"]
    assert sorted(pools["values"]) == ["decode", "prefill"]
    assert _ports(partner) == [("TCP", 5600, None), ("TCP", 32768, 60999)]


@pytest.mark.parametrize(
    ("scraper", "peer"),
    [
        (
            Readers(scraper_namespace_labels={"n": "monitoring"}),
            {"namespaceSelector": {"matchLabels": {"n": "monitoring"}}},
        ),
        (
            Readers(scraper_pod_labels={"app": "vmagent"}),
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "vmagent"}}},
        ),
    ],
)
def test_the_scraper_is_the_one_that_the_operators_settings_name(scraper, peer):
    _, rule, _ = _ingress(deployments.spec(), "unified", scraper)

    assert rule["from"] == [peer]
