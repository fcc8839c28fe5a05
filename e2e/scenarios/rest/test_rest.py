"""At rest nothing is written and nothing is listed, though the operator looks every few seconds."""

import json
import time
from pathlib import Path

import pytest
from e2e import llmd, operator_install
from e2e.operator_install import RESYNC_SECONDS, count

HERE = Path(__file__).parent
REST_SECONDS = 60
QUIET_SECONDS = 12
WRITES = ("apply", "create", "delete", "patch", "post", "put", "update")


@pytest.fixture(scope="module")
def deployments(kube, shared_namespace):
    """One unified deployment and one pair, both ready."""
    files = ("unified.yaml", "pair.yaml")
    made = [llmd.apply(kube, shared_namespace, HERE / file) for file in files]
    for deployment in made:
        deployment.wait_settled()
    time.sleep(QUIET_SECONDS)
    return made


def of(scraped, metric, deployment):
    """The value of a metric that has one series for each deployment."""
    place = {"namespace": deployment.namespace, "llmdeployment": deployment.name}
    (value,) = (
        sample.value
        for family in scraped.families
        for sample in family.samples
        if sample.name == metric and place.items() <= sample.labels.items()
    )
    return value


def versions(deployment):
    """The version of the resource and of everything that was made for it."""
    found = [deployment.document, *deployment.children(), *deployment.pods()]
    return {(d.get("kind"), d["metadata"]["name"]): d["metadata"]["resourceVersion"] for d in found}


def calls(scraped):
    """How often something was written, and listed; the Lease is renewed all the time."""
    resources = {
        sample.labels["resource"]
        for family in scraped.families
        for sample in family.samples
        if sample.name == "tidegate_api_calls_total"
    } - {"leases"}
    return count(scraped, WRITES, tuple(resources)), count(scraped, ("list",))


def test_nothing_moves_for_a_minute(operator, deployments):
    before, told = [versions(d) for d in deployments], operator.metrics()
    assert sum(map(len, before)) > 15

    time.sleep(REST_SECONDS)

    after, tells = [versions(d) for d in deployments], operator.metrics()
    assert after == before
    assert calls(tells) == calls(told), "no write and no list"
    passes = "tidegate_reconcile_passes_total"
    looked = tells.value(passes) - told.value(passes)
    assert looked >= len(deployments) * (REST_SECONDS / RESYNC_SECONDS - 2), "it did look"


def test_the_operator_tells_how_it_is(operator, deployments):
    scraped = operator.metrics()

    assert scraped.value("tidegate_leading") == 1
    for deployment in deployments:
        assert of(scraped, "tidegate_deployment_ready", deployment) == 1
        tokens = of(scraped, "tidegate_deployment_kv_tokens", deployment)
        assert tokens == deployment.status["kvTokens"]


def test_every_line_of_the_log_is_one_json_object(operator, kube):
    pod = operator.leader()["metadata"]["name"]

    lines = kube.kubectl("-n", operator_install.NAMESPACE, "logs", pod).splitlines()

    records = [json.loads(line) for line in lines]
    assert records
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in records)
