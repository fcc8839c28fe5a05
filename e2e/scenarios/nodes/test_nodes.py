"""Nodes that lose their labels, are cordoned, or go for good."""

import time

import pytest
from e2e.cluster import Cluster
from e2e.kube import MERGE_PATCH, Not, path, wait_until
from e2e.llmd import Llmd, node_of
from e2e.operator_install import CLASS_GRACE_SECONDS

A100, H100 = "n1", "n2"
MOMENT_SECONDS = 8
"""For which GPU feature discovery, while it restarts, leaves nodes without labels."""
GONE_SECONDS = 200.0
"""The garbage collector of pods gives a node that is gone a minute."""

pytestmark = pytest.mark.usefixtures("as_before")


@pytest.fixture
def spread(apply) -> Llmd:
    """A deployment with one pod on each class of node."""
    deployment = apply("spread.yaml")
    deployment.wait_settled()
    assert {node_of(pod) for pod in deployment.pods()} == {A100, H100}
    return deployment


def test_labels_that_vanish_for_a_moment_move_no_pod(local: Cluster, kube, spread):
    uids, status = spread.uids(), spread.status

    for name in (A100, H100):
        labels = kube.get("nodes", None, name)["metadata"]["labels"]
        gone = {key: None for key in labels if key.startswith("nvidia.com/")}
        kube.request(
            "PATCH", path("nodes", None, name), {"metadata": {"labels": gone}}, MERGE_PATCH
        )
    time.sleep(MOMENT_SECONDS)
    assert spread.status["plan"] == status["plan"], "nothing is planned anew meanwhile"
    local.up()
    time.sleep(CLASS_GRACE_SECONDS)

    assert spread.uids() == uids
    assert spread.status["plan"] == status["plan"]
    assert spread.condition("Ready")["status"] == "True"


def test_pods_stay_on_a_cordoned_node_and_go_elsewhere_when_it_is_drained(kube, spread):
    before = spread.uids()
    kept = {pod["metadata"]["uid"] for pod in spread.pods() if node_of(pod) == A100}

    kube.kubectl("cordon", H100)
    try:
        time.sleep(CLASS_GRACE_SECONDS)
        assert spread.uids() == before, "a cordon alone moves nothing"
        for pod in spread.pods():
            if node_of(pod) == H100:
                kube.kubectl("delete", "pod", "-n", spread.namespace, pod["metadata"]["name"])
        wait_until(
            "both pods are on the other node",
            lambda: {node_of(pod) for pod in spread.pods()} == {A100} or Not(where(spread)),
            90,
        )
        spread.wait_settled()
    finally:
        kube.kubectl("uncordon", H100)

    assert kept < spread.uids(), "the pod on the other node was not touched"
    moved = spread.uids()
    time.sleep(10)
    assert spread.uids() == moved, "nothing moves back when the node returns"


def test_a_class_that_is_gone_for_good_is_planned_elsewhere(local: Cluster, kube, spread):
    local.stop(H100)
    kube.kubectl("delete", "node", H100)

    wait_until(
        "both pods are on the node that is left",
        lambda: [node_of(pod) for pod in spread.pods()] == [A100, A100] or Not(where(spread)),
        GONE_SECONDS,
    )
    status = spread.wait_ready()

    assert status["pods"] == "2/2"
    assert [(e["gpuProduct"], e["replicas"]) for e in status["plan"]] == [
        ("NVIDIA-A100-SXM4-80GB", 2)
    ]


def where(deployment):
    """What to show while waiting."""
    return [(pod["metadata"]["name"], node_of(pod)) for pod in deployment.pods()]
