"""What a review knows of the world: caches, cut to its namespace, with nodes that are steady."""

import pytest
from tests.unit.shell.test_webhook_server import resource

from tidegate.core import admission
from tidegate.core.admission import Rules
from tidegate.core.names import LABEL_DEPLOYMENT, LABEL_POOL
from tidegate.shell.admission import wire
from tidegate.shell.admission.seen import Seen
from tidegate.shell.cluster import KubernetesCluster

GRACE_SECONDS = 60.0


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def cluster():
    return KubernetesCluster(None, lambda ref: None)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def seen(cluster, clock):
    return Seen(cluster, Rules(digests_only=True), (), GRACE_SECONDS, clock)


def offer(cluster, kind, document):
    """Have a cache take a document as if a watch had told of it."""
    cache = next(cache for cache in cluster.caches() if cache.resource.kind == kind)
    cache.offer({"kind": kind, **document})


def node(version, name="one", product="NVIDIA-H100-80GB-HBM3", beat=0):
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"} if product else {}
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": str(version)},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"beat": beat}]},
    }


def named(name, namespace, version=1, **labels):
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {}}


def request(name="chat", namespace="team"):
    return wire.Request("1", "UPDATE", True, namespace, name, wire.User("ann"), {}, {})


def test_a_heartbeat_leaves_the_nodes_the_very_same(cluster, seen):
    offer(cluster, "Node", node(1))
    first = seen.nodes()
    offer(cluster, "Node", node(2, beat=1))

    assert len(first) == 1
    assert seen.nodes() is first, "so that what was planned for them holds"


def test_a_node_that_comes_is_seen_at_once(cluster, seen):
    offer(cluster, "Node", node(1))
    assert len(seen.nodes()) == 1
    offer(cluster, "Node", node(2, "two"))

    assert [n.name for n in seen.nodes()] == ["one", "two"]


def test_labels_that_vanish_for_a_moment_refuse_nobody(cluster, seen, clock):
    offer(cluster, "Node", node(1))
    before = seen.nodes()
    offer(cluster, "Node", node(2, product=None))

    assert seen.nodes() == before
    clock.now += GRACE_SECONDS + 1
    assert seen.nodes()[0].node_class is None


def test_others_are_those_of_the_namespace(cluster, seen):
    for name, namespace in (("chat", "team"), ("code", "team"), ("code", "elsewhere")):
        offer(cluster, "LLMDeployment", named(name, namespace))

    found = seen.facts(request())

    assert [other["metadata"]["name"] for other in found.others] == ["code"]
    assert found.rules == Rules(digests_only=True)
    assert found.config_texts == {}


def test_pools_that_are_there_are_those_of_the_deployment(cluster, seen):
    for pool in ("prefill", "decode"):
        labels = {LABEL_DEPLOYMENT: "chat", LABEL_POOL: pool}
        offer(cluster, "Deployment", named(f"chat-{pool}", "team", **labels))
    offer(cluster, "Deployment", named("chat-gate", "team", **{LABEL_DEPLOYMENT: "chat"}))

    assert seen.facts(request()).pools_there == {"prefill", "decode"}
    assert seen.facts(request("other")).pools_there == frozenset()


def selecting(name, version=1, **labels):
    document = named(name, "team", version)
    return {**document, "spec": {"selector": labels}}


def test_what_objects_of_others_select_is_known_until_they_go(cluster, seen):
    offer(cluster, "Service", selecting("web", app="web"))
    offer(cluster, "Deployment", selecting("api", matchLabels={"app": "api"}))
    offer(cluster, "Service", named("chat", "team", **{LABEL_DEPLOYMENT: "chat"}))
    offer(cluster, "Service", named("without-selector", "team"))

    def found(namespace="team"):
        facts = seen.facts(request(namespace=namespace))
        return {(s.kind, s.name): dict(s.labels) for s in facts.selectors}

    assert found() == {("Service", "web"): {"app": "web"}, ("Deployment", "api"): {"app": "api"}}
    assert found("elsewhere") == {}

    offer(cluster, "Service", selecting("web", version=2, app="site"))
    offer(cluster, "Deployment", selecting("api", version=2))
    assert found() == {("Service", "web"): {"app": "site"}}


def test_a_service_of_others_that_would_catch_the_engines_is_refused(cluster, seen):
    offer(cluster, "Service", selecting("web", app="web"))
    labels = {"podTemplate": {"labels": {"app": "web"}}}
    new = resource(pools={"unified": labels})

    refused = admission.review(None, new, seen.facts(request()))
    (told,) = (found for found in refused.problems if found.reason == "LabelCollision")
    assert "Service web" in told.line
