"""What a deployment made goes with it."""

from e2e.kube import Not, wait_until
from e2e.llmd import CHILDREN

DEPENDENTS = (*CHILDREN, "endpointslices", "pods", "replicasets")
OF_THE_NAMESPACE = (
    ("configmaps", "kube-root-ca.crt"),
    ("configmaps", "tidegate-measurements"),
    ("serviceaccounts", "default"),
)
"""What belongs to no deployment: the cluster's own, and what engines told of their memory."""
GONE_SECONDS = 90.0
"""A pod waits 10 s for its clients, and then for the requests that it has."""


def left(kube, namespace):
    """Everything in the namespace but what every namespace has."""
    return [
        f"{plural}/{item['metadata']['name']}"
        for plural in DEPENDENTS
        for item in kube.list(plural, namespace)
        if (plural, item["metadata"]["name"]) not in OF_THE_NAMESPACE
    ]


def test_everything_is_gone_after_a_deletion(kube, namespace, apply):
    deployments = [apply("unified.yaml"), apply("pair.yaml")]
    for deployment in deployments:
        deployment.wait_ready()
    assert len(left(kube, namespace)) > 3 * len(CHILDREN)

    for deployment in deployments:
        deployment.delete()

    wait_until(
        "the namespace is empty",
        lambda: not (rest := left(kube, namespace)) or Not(rest),
        GONE_SECONDS,
    )
    assert kube.list("llmdeployments", namespace) == [], "no finalizer holds the resource back"


def test_deleting_one_leaves_the_other_alone(namespace, apply):
    kept, deleted = apply("unified.yaml"), apply("unified.yaml", name="tiny-unified-b")
    kept.wait_ready()
    deleted.wait_ready()
    uids, children = kept.uids(), names(kept)

    deleted.delete()
    wait_until("its objects are gone", lambda: not deleted.children(), GONE_SECONDS)

    assert (kept.uids(), names(kept)) == (uids, children)
    assert kept.wait_ready()["pods"] == "1/1"


def names(deployment):
    return {(child["kind"], child["metadata"]["name"]) for child in deployment.children()}
