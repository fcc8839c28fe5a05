"""The webhook's certificates on a real API server: made once, trusted, and renewed under load."""

import asyncio
import base64
import json
import time

import pytest
from tests.shell.conftest import kubectl
from tests.shell.webhook_world import WebhookWorld, until

from tidegate.shell.admission import certificates
from tidegate.shell.admission.certificates import Lifetimes

SECRET = "tidegate-webhook-tls"
SHORT = Lifetimes(
    authority_seconds=18, certificate_seconds=6, renew_share=1 / 2, settle_seconds=1.5
)
"""An authority is followed after nine seconds, a certificate after three."""


@pytest.fixture
async def world(api, namespace):
    made = WebhookWorld(api, namespace)
    await made.register()
    yield made
    await made.close()


def secret(world):
    found = kubectl("get", "secret", SECRET, "-n", world.namespace, "-o", "json")
    document = json.loads(found.stdout)
    return {key: base64.b64decode(text) for key, text in document["data"].items()}


def configuration(world, kind="validatingwebhookconfiguration"):
    return json.loads(kubectl("get", kind, world.name, "-o", "json").stdout)


def bundle(world, kind="validatingwebhookconfiguration"):
    (hook,) = configuration(world, kind)["webhooks"]
    return base64.b64decode(hook["clientConfig"].get("caBundle", ""))


async def test_replicas_that_start_at_once_share_one_certificate(world, deployment):
    replicas = [await world.replica(leads=number == 0) for number in range(4)]
    await world.ready()

    assert len({replica.keeper.expires for replica in replicas}) == 1
    assert secret(world)["ca.crt"] == bundle(world)
    assert secret(world)["ca.crt"] == bundle(world, "mutatingwebhookconfiguration")
    for _ in replicas:
        assert (await world.create(deployment, dry=True))[0] == 201


def trust_another(world):
    other = certificates.first(["elsewhere.svc"], time.time(), Lifetimes()).bundle
    path, value = "/webhooks/0/clientConfig/caBundle", base64.b64encode(other).decode()
    patch = [{"op": "add", "path": path, "value": value}]
    kubectl(
        *("patch", "validatingwebhookconfiguration", world.name),
        *("--type=json", "-p", json.dumps(patch)),
    )
    return other


async def test_any_replica_fills_in_a_missing_bundle_since_the_leader_may_be_an_older_version(
    world,
):
    await world.replica(leads=False)
    await world.ready()

    assert bundle(world) == secret(world)["ca.crt"]


async def test_only_the_leader_replaces_a_bundle_and_only_by_what_is_new(world):
    other = trust_another(world)
    follower = await world.replica(leads=False)
    await asyncio.sleep(1)
    assert not follower.webhook.is_ready(), "nobody trusts its certificate yet"
    assert bundle(world) == other

    await world.replica(leads=True)
    await world.ready()
    assert bundle(world) == secret(world)["ca.crt"]
    version = configuration(world)["metadata"]["resourceVersion"]
    await asyncio.sleep(1)

    assert configuration(world)["metadata"]["resourceVersion"] == version


async def test_a_bundle_that_somebody_spoils_is_mended(world):
    await world.replica()
    await world.ready()
    patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    kubectl(
        *("patch", "validatingwebhookconfiguration", world.name),
        *("--type=json", "-p", json.dumps(patch)),
    )

    await until(lambda: bundle(world) == secret(world)["ca.crt"])


@pytest.mark.parametrize("data", [{}, {"tls.crt": "bm8=", "tls.key": "bm8=", "ca.crt": "bm8="}])
async def test_a_secret_that_is_broken_is_made_anew(world, deployment, data):
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": world.namespace},
        "data": data,
    }
    kubectl("apply", "-f", "-", input=json.dumps(body))
    await world.replica()
    await world.ready()

    assert (await world.create(deployment, dry=True))[0] == 201


async def test_no_admission_fails_while_authority_and_certificate_are_renewed(world, deployment):
    for number in range(2):
        await world.replica(leads=number == 0, lifetimes=SHORT)
    await world.ready()
    bundles, certificates, answers = set(), set(), []
    loop = asyncio.get_running_loop()
    end = loop.time() + 26

    async def ask():
        while loop.time() < end:
            answers.append((await world.create(deployment, dry=True))[0])
            await asyncio.sleep(0.02)

    async def look():
        while loop.time() < end:
            bundles.add(await asyncio.to_thread(bundle, world))
            certificates.add((await asyncio.to_thread(secret, world))["tls.crt"])
            await asyncio.sleep(0.2)

    await asyncio.gather(*(ask() for _ in range(3)), look())

    assert len(certificates) >= 4
    assert any(found.count(b"BEGIN CERTIFICATE") == 2 for found in bundles), "they overlap"
    assert len(answers) > 100
    assert set(answers) == {201}
