"""Whatever breaks in the middle of a rollout, the end is the same as if nothing had."""

import time
from pathlib import Path

import pytest
from e2e import llmd, operator_install
from e2e.cluster import Cluster
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, Llmd, env
from e2e.operator_install import Operator

FILE = Path(__file__).with_name("engine.yaml")
CHANGE = {"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02, DOUBLE_START_SECONDS=4)}}
OUTAGE_SECONDS = 30
LEASE_SECONDS = 15
SETTLED_SECONDS = 200.0
_GIVEN_BY_THE_SERVER = (
    *("creationTimestamp", "generation", "managedFields", "ownerReferences"),
    *("resourceVersion", "uid", "namespace"),
)


@pytest.fixture(scope="module")
def calm(kube, local, make_namespace) -> list:
    """What a deployment comes to that went the same way without any fault."""
    deployment = llmd.apply(kube, make_namespace("calm"), FILE)
    deployment.wait_settled()
    deployment.patch(CHANGE)
    deployment.wait_settled(SETTLED_SECONDS)
    return objects(deployment)


@pytest.fixture
def rolling(apply, calm) -> Llmd:
    """A deployment in the middle of the same change: a new pod is there, and an old one."""
    deployment = apply("engine.yaml")
    deployment.wait_settled()
    start_rollout(deployment)
    return deployment


def start_rollout(deployment: Llmd) -> None:
    """Change the spec and wait until pods of both revisions are there."""
    deployment.patch(CHANGE)
    wait_until("pods of two revisions", lambda: len(revisions(deployment)) == 2, 60)


def revisions(deployment):
    return {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}


def objects(deployment):
    """Everything that was made, without what each object has of its own; no orphan is hidden."""
    everything = [
        {**item, "kind": plural}
        for plural in (*llmd.CHILDREN, "replicasets")
        for item in deployment.kube.list(plural, deployment.namespace)
        if item["metadata"]["name"] != "default"
    ]
    return sorted((_bare(item) for item in everything), key=lambda d: (d["kind"], d["name"]))


def _bare(document):
    metadata = {k: v for k, v in document["metadata"].items() if k not in _GIVEN_BY_THE_SERVER}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: value for key, value in annotations.items() if key.startswith("tidegate.io/")
    }
    spec = document.get("spec", {})
    own = ("clusterIP", "clusterIPs")
    spec = {key: value for key, value in spec.items() if key not in own}
    return {
        "kind": document["kind"],
        "name": metadata["name"],
        "metadata": _without_owner(metadata),
        "spec": spec,
    }


def _without_owner(metadata):
    """The digest of what was applied holds the owner's uid, which no two deployments share."""
    kept = {k: v for k, v in metadata["annotations"].items() if k != "tidegate.io/applied"}
    return {**metadata, "annotations": kept}


def test_the_api_server_is_away_for_half_a_minute(local: Cluster, rolling, calm):
    local.stop("kube-apiserver")
    try:
        time.sleep(OUTAGE_SECONDS)
    finally:
        local.start("kube-apiserver")

    rolling.wait_settled(SETTLED_SECONDS)

    assert objects(rolling) == calm


def test_the_operator_is_killed_again_and_again(operator: Operator, rolling, calm):
    operator_install.crash(operator, operator.leader())
    operator.delete_pod()
    operator.wait_ready()
    operator.leader()
    operator.delete_pod()

    rolling.wait_settled(SETTLED_SECONDS)

    assert objects(rolling) == calm


class TestTwoReplicas:
    """Two operator pods: one leads, the other is ready to."""

    @pytest.fixture(autouse=True)
    def _two(self, operator: Operator):
        operator.scale(2)
        yield
        operator.scale(1)

    def test_the_other_one_takes_over_when_the_leader_is_taken_away(
        self, operator: Operator, rolling, calm
    ):
        first = operator.leader()["metadata"]["name"]

        operator.delete_pod()
        second = wait_until("another one leads", lambda: led_by_another(operator, first), 60)
        rolling.wait_settled(SETTLED_SECONDS)

        assert second != first
        assert objects(rolling) == calm

    def test_a_leader_that_was_paused_writes_nothing_when_it_wakes(
        self, operator: Operator, rolling, calm
    ):
        paused = operator.leader()
        name = paused["metadata"]["name"]
        operator_install.pause(paused)
        try:
            wait_until("another one leads", lambda: led_by_another(operator, name), 60)
            rolling.wait_settled(SETTLED_SECONDS)
            settled = objects(rolling)
        finally:
            operator_install.resume(paused)
        time.sleep(LEASE_SECONDS)

        assert led_by_another(operator, name), "the one that slept does not take the Lease back"
        assert settled == calm
        assert objects(rolling) == calm


def led_by_another(operator, name):
    """The name of the pod that leads, if it is another one."""
    leader = operator.leader()["metadata"]["name"]
    return leader if leader != name else Not(f"{leader} leads")
