"""Whatever breaks in the middle of a rollout, the end is the same as if nothing had."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e import llmd, operator_install
from e2e.cluster import Cluster
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, Llmd, env
from e2e.operator_install import Operator

FILE = Path(__file__).with_name("engine.yaml")
OUTAGE_SECONDS = 30
LEASE_SECONDS = 15
SETTLED_SECONDS = 200.0
_GIVEN_BY_THE_SERVER = (
    *("creationTimestamp", "generation", "managedFields", "ownerReferences"),
    *("resourceVersion", "uid"),
)


@dataclass
class Rolling:
    """A deployment that is rolled from one spec to another and back, with a fault each time.

    `calm` has what it came to, under each of the two specs, when nothing broke.
    """

    deployment: Llmd
    calm: dict[bool, list]
    is_slow: bool = False

    def start(self) -> None:
        """Change the spec and wait until pods of both revisions are there."""
        self.is_slow = not self.is_slow
        step = 0.02 if self.is_slow else 0.01
        self.deployment.patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=step)}})
        wait_until("pods of two revisions", self.is_midway, 60)

    def is_midway(self) -> bool:
        """Say whether the rollout has begun and not ended."""
        pods = self.deployment.pods()
        return len({pod["metadata"]["labels"][REVISION] for pod in pods}) == 2

    def settle(self) -> list:
        """Wait for the end, and return everything that is there then."""
        self.deployment.wait_settled(SETTLED_SECONDS)
        # what was deleted is collected a little later than the status says that all is well
        wait_until("one slice and the gate are left", self._is_alone, 60)
        return objects(self.deployment)

    def _is_alone(self) -> bool:
        kube, namespace = self.deployment.kube, self.deployment.namespace
        return all(len(kube.list(kind, namespace)) == 2 for kind in ("deployments", "replicasets"))

    def ends_as_ever(self) -> None:
        """Wait for the end, and compare what is there with what a calm rollout came to."""
        assert differences(self.settle(), self.calm[self.is_slow]) == []


@pytest.fixture(scope="module")
def rolling(local: Cluster, kube, shared_namespace) -> Rolling:
    """A deployment that has seen one rollout without a fault from each spec to the other."""
    made = Rolling(llmd.apply(kube, shared_namespace, FILE), {})
    made.deployment.wait_settled()
    for _ in range(2):
        made.start()
        made.calm[made.is_slow] = made.settle()
    return made


def objects(deployment):
    """Everything that was made, without what each object has of its own; no orphan is hidden."""
    everything = [
        {**item, "kind": plural}
        for plural in (*llmd.CHILDREN, "replicasets")
        for item in deployment.kube.list(plural, deployment.namespace)
        if item["metadata"]["name"] != "default"
    ]
    return sorted((_bare(item) for item in everything), key=lambda d: (d["kind"], d["name"]))


def differences(found, expected):
    """What is there on one side only: each object with the parts in which it differs."""
    sides = [{(item["kind"], item["name"]): item for item in side} for side in (found, expected)]
    return [
        (key, part, found_item.get(part), expected_item.get(part))
        for key in sorted(sides[0].keys() | sides[1].keys())
        for found_item, expected_item in [(sides[0].get(key, {}), sides[1].get(key, {}))]
        for part in ("name", "labels", "annotations", "metadata", "spec")
        if found_item.get(part) != expected_item.get(part)
    ]


def _bare(document):
    metadata = {k: v for k, v in document["metadata"].items() if k not in _GIVEN_BY_THE_SERVER}
    # what the controllers keep, and what engines told when they were asked, with the digest of it
    own = ("deployment.kubernetes.io/", "tidegate.io/measured", "tidegate.io/applied")
    metadata["annotations"] = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith(own)
    }
    spec = {k: v for k, v in document.get("spec", {}).items() if not k.startswith("clusterIP")}
    return {
        "kind": document["kind"],
        "name": metadata.pop("name"),
        "labels": metadata.pop("labels", {}),
        "annotations": metadata.pop("annotations"),
        "metadata": metadata,
        "spec": spec,
    }


def test_the_api_server_is_away_for_half_a_minute(local: Cluster, rolling):
    rolling.start()
    local.stop("kube-apiserver", grace_seconds=0)
    try:
        time.sleep(OUTAGE_SECONDS)
    finally:
        local.start("kube-apiserver")

    rolling.ends_as_ever()


def test_the_operator_is_killed_again_and_again(operator: Operator, rolling):
    rolling.start()
    operator_install.crash(operator, operator.leader())
    operator.delete_pod()
    operator.wait_ready()
    operator.delete_pod()

    rolling.ends_as_ever()


class TestTwoReplicas:
    """What the pod does that does not lead."""

    def test_it_takes_over_when_the_leader_is_taken_away(self, operator: Operator, rolling):
        first = operator.leader()["metadata"]["name"]
        rolling.start()

        operator.delete_pod()

        wait_until("another one leads", lambda: led_by_another(operator, first), 60)
        rolling.ends_as_ever()

    def test_a_leader_that_was_paused_writes_nothing_when_it_wakes(
        self, operator: Operator, rolling
    ):
        operator.wait_ready()
        paused = operator.leader()
        name = paused["metadata"]["name"]
        rolling.start()
        operator_install.pause(paused)
        try:
            wait_until("another one leads", lambda: led_by_another(operator, name), 60)
            rolling.ends_as_ever()
        finally:
            operator_install.resume(paused)
        time.sleep(LEASE_SECONDS)

        assert led_by_another(operator, name), "the one that slept does not take the Lease back"
        rolling.ends_as_ever()


def led_by_another(operator, name):
    """The name of the pod that leads, if it is another one."""
    leader = operator.leader()["metadata"]["name"]
    return leader if leader != name else Not(f"{leader} leads")
