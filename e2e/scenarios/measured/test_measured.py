"""What engines tell of their KV cache: shown beside the plan, and used at the next rollout.

Of doubles, which can be off; test_examples has the same of a real vLLM that is not.
"""

import json
import time
from pathlib import Path

import pytest
from e2e import llmd
from e2e.kube import Not, wait_until
from e2e.operator_install import RESYNC_SECONDS

METRICS = ("tidegate_budget_drift_ratio", "tidegate_measured_kv_tokens")
STORE = "tidegate-measurements"
NOT_THE_ENGINE = {"pools": {"unified": {"podTemplate": {"annotations": {"team": "chat"}}}}}
"""Makes new pods of the very same engine."""


def entry(deployment):
    """The plan of the only slice, once an engine was heard."""

    def measured():
        (found,) = deployment.status.get("plan") or [{}]
        return found if "measured" in found else Not(found)

    return wait_until("an engine was heard", measured, 60)


def series(operator, deployment, name):
    """The value of a metric of the deployment's only slice."""
    (found,) = (
        sample.value
        for family in operator.metrics().families
        for sample in family.samples
        if sample.name == name and sample.labels["namespace"] == deployment.namespace
    )
    return found


def arguments(deployment):
    """The engine's command line, of all its pods."""
    return {tuple(pod["spec"]["containers"][0]["args"]) for pod in deployment.pods()}


@pytest.fixture(scope="module")
def profiled(kube, shared_namespace):
    file = Path(__file__).with_name("profiled.yaml")
    deployment = llmd.apply(kube, shared_namespace, file)
    deployment.wait_settled()
    return deployment


class TestDrift:
    def test_it_is_told_with_the_term_that_is_off(self, operator, profiled):
        told = profiled.wait_for("BudgetDrift", "True", "KVSmallerThanPlanned")

        assert "weights take 20.0Gi" in told["message"]
        found = entry(profiled)
        assert found["measured"]["kvTokens"] < found["kvTokens"]
        assert profiled.condition("Ready")["status"] == "True"
        drift, tokens = (series(operator, profiled, name) for name in METRICS)
        assert drift == pytest.approx(found["measured"]["driftPercent"] / 100)
        assert tokens == found["measured"]["kvTokens"]

    def test_it_restarts_nothing(self, profiled):
        pods, children = profiled.uids(), versions(profiled)

        time.sleep(3 * RESYNC_SECONDS)

        assert profiled.uids() == pods
        assert versions(profiled) == children

    def test_after_a_restart_of_the_operator_the_next_rollout_uses_it(
        self, kube, operator, profiled
    ):
        measured = entry(profiled)["measured"]
        (kept,) = kube.get("configmaps", profiled.namespace, STORE)["data"].values()
        assert json.loads(kept)["measured"]["terms"]["weights_bytes"] == 20 * 2**30
        assert not any(
            "--kv-cache-memory-bytes" in word for words in arguments(profiled) for word in words
        )
        operator.delete_pod()
        operator.wait_ready()
        operator.leader()

        profiled.patch(NOT_THE_ENGINE)
        profiled.wait_settled()

        found = entry(profiled)
        assert found["kvBlocks"] == measured["kvBlocks"]
        assert found["perGpu"]["kvCache"]["how"] == "measured"
        kv_bytes = found["perGpu"]["kvCache"]["bytes"]
        assert all(f"--kv-cache-memory-bytes={kv_bytes}" in words for words in arguments(profiled))
        profiled.wait_for("BudgetDrift", "False", "AsPlanned")
        assert entry(profiled)["measured"]["driftPercent"] == 0


def versions(deployment):
    """What tells the objects of a deployment from later states of them."""
    return {
        (d["kind"], d["metadata"]["name"]): d["metadata"]["resourceVersion"]
        for d in deployment.children()
    }
