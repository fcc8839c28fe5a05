"""The real `Cluster` port against a real API server."""

import asyncio
import contextlib
import json

import pytest
from tests.shell.conftest import kubectl

from tidegate.flow.ports import Ref, WriteFailed
from tidegate.shell.cluster import KubernetesCluster


async def until(condition, seconds=15):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def watching(api, may_write=lambda: True):
    """A cluster with filled caches, and the deployments that it woke."""
    woken = []
    cluster = KubernetesCluster(api, woken.append, may_write)
    tasks = [asyncio.create_task(cache.run(api)) for cache in cluster.caches()]
    try:
        await until(cluster.synced)
        yield cluster, woken
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def apply(document):
    kubectl("apply", "-f", "-", input=json.dumps(document))


def service(namespace, port=80, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "qwen-unified",
            "namespace": namespace,
            "labels": {"tidegate.io/deployment": "qwen", **labels},
        },
        "spec": {"clusterIP": "None", "ports": [{"port": port}], "selector": {"a": "b"}},
    }


async def test_what_others_apply_is_seen_and_wakes_the_deployment(api, namespace, deployment):
    ref = Ref(namespace, "qwen")
    async with watching(api) as (cluster, woken):
        apply(deployment)
        await until(lambda: cluster.deployment(ref))
        woken.clear()
        apply(service(namespace))
        await until(lambda: cluster.owned("Service", ref))

        assert ref in woken
        kubectl("delete", "-n", namespace, "service/qwen-unified", "llmd/qwen")
        await until(lambda: not cluster.owned("Service", ref) and not cluster.deployment(ref))


async def test_our_own_write_is_in_the_cache_when_it_returns(api, namespace):
    async with watching(api) as (cluster, _):
        stored = await cluster.apply(service(namespace))

        assert cluster.owned("Service", Ref(namespace, "qwen")) == [stored] or (
            cluster.owned("Service", Ref(namespace, "qwen"))[0]["metadata"]["uid"]
            == stored["metadata"]["uid"]
        )


async def test_applying_the_same_again_moves_no_version(api, namespace):
    async with watching(api) as (cluster, _):
        first = await cluster.apply(service(namespace))
        second = await cluster.apply(service(namespace))

        assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_field_that_is_applied_no_more_is_removed(api, namespace):
    async with watching(api) as (cluster, _):
        await cluster.apply(service(namespace, extra="yes"))
        stored = await cluster.apply(service(namespace))

        assert "extra" not in stored["metadata"]["labels"]


async def test_an_object_that_was_replaced_meanwhile_is_not_deleted(api, namespace):
    async with watching(api) as (cluster, _):
        old = await cluster.apply(service(namespace))
        kubectl("delete", "-n", namespace, "service/qwen-unified")
        await cluster.apply(service(namespace))
        with pytest.raises(WriteFailed) as caught:
            await cluster.delete(old)

        assert caught.value.status == 409
        assert await cluster.get("Service", namespace, "qwen-unified")


async def test_what_is_gone_can_be_deleted_again(api, namespace):
    async with watching(api) as (cluster, _):
        old = await cluster.apply(service(namespace))
        await cluster.delete(old)
        await cluster.delete(old)

        assert await cluster.get("Service", namespace, "qwen-unified") is None


def at_rest(deployment):
    """Say whether the Deployment's controller has written all that it has to say."""
    conditions = deployment.get("status", {}).get("conditions", ())
    told = {condition["type"]: condition["reason"] for condition in conditions}
    return told.get("Progressing") == "NewReplicaSetAvailable" and "Available" in told


async def test_replicas_are_set_and_nothing_else_and_only_of_what_was_seen(api, namespace):
    labels = {"tidegate.io/deployment": "qwen"}
    container = {"name": "engine", "image": "none:1"}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    async with watching(api) as (cluster, _):
        await cluster.apply(document)
        ref = Ref(namespace, "qwen")
        await until(lambda: at_rest(cluster.owned("Deployment", ref)[0]))
        old = cluster.owned("Deployment", ref)[0]
        new = await cluster.scale(old, 3)

        assert new["spec"]["replicas"] == 3
        assert new["spec"]["template"] == old["spec"]["template"]
        with pytest.raises(WriteFailed) as caught:
            await cluster.scale(old, 5)
        assert caught.value.status == 409


async def test_a_refused_write_tells_status_and_message(api, namespace):
    async with watching(api) as (cluster, _):
        with pytest.raises(WriteFailed, match=r"spec\.ports") as caught:
            await cluster.apply(service(namespace, port=0))

    assert caught.value.status == 422


async def test_status_is_replaced_and_a_stale_version_is_refused(api, namespace, deployment):
    ref = Ref(namespace, "qwen")
    async with watching(api) as (cluster, _):
        apply(deployment)
        await until(lambda: cluster.deployment(ref))
        version = cluster.deployment(ref)["metadata"]["resourceVersion"]
        stored = await cluster.set_status(ref, version, {"observedGeneration": 1, "pods": "0/1"})

        assert stored["status"] | {"observedGeneration": 1, "pods": "0/1"} == stored["status"]
        assert stored["spec"]["model"]["id"] == "Qwen/Qwen3-0.6B"
        with pytest.raises(WriteFailed) as caught:
            await cluster.set_status(ref, version, {"observedGeneration": 2})
        assert caught.value.status == 409


async def test_a_process_that_does_not_lead_writes_nothing(api, namespace):
    async with watching(api, may_write=lambda: False) as (cluster, _):
        with pytest.raises(WriteFailed, match="does not lead"):
            await cluster.apply(service(namespace))

        assert await cluster.get("Service", namespace, "qwen-unified") is None


async def test_an_event_about_the_deployment_is_written(api, namespace, deployment):
    ref = Ref(namespace, "qwen")
    async with watching(api) as (cluster, _):
        apply(deployment)
        await until(lambda: cluster.deployment(ref))
        await cluster.emit(ref, "Warning", "BudgetTooSmall", "needs 5 GiB and has 4 GiB")
        seen = kubectl("get", "events", "-n", namespace, "-o", "json").stdout

    [event] = json.loads(seen)["items"]
    assert (event["reason"], event["type"]) == ("BudgetTooSmall", "Warning")
    assert event["involvedObject"]["name"] == "qwen"
