"""The webhook as users meet it: through a real API server, by kubectl."""

import asyncio
import json

import pytest
from tests.shell.conftest import kubectl
from tests.shell.webhook_world import WebhookWorld

IMAGE = "spec.engine.image"


@pytest.fixture
async def world(api, namespace):
    """One replica, registered and reached."""
    made = WebhookWorld(api, namespace)
    await made.register()
    await made.replica()
    await made.ready()
    yield made
    await made.close()


def told(document, *arguments, verb="apply"):
    """Run kubectl beside the event loop that serves the webhook."""
    return kubectl(verb, "-f", "-", *arguments, input=json.dumps(document), check=False)


async def by_kubectl(document, *arguments, verb="apply"):
    return await asyncio.to_thread(told, document, *arguments, verb=verb)


def broken(deployment):
    """Two faults: an image that is none, and a split that the model has not."""
    deployment["spec"]["engine"] |= {"image": "vllm/../openai:v0.32.0", "version": "0.32.0"}
    deployment["spec"]["pools"] = {"unified": {"replicas": 1, "tensorParallel": 5}}
    return deployment


async def test_a_resource_that_works_is_stored_without_a_word(world, deployment):
    answer = await by_kubectl(deployment)

    assert answer.returncode == 0, answer.stderr
    assert "created" in answer.stdout
    assert world.replicas[0].reviews("refused") == 0


async def test_all_faults_are_told_at_once_with_field_value_limit_fix_and_reason(world, deployment):
    answer = await by_kubectl(broken(deployment))

    assert answer.returncode != 0
    for word in (
        'The LLMDeployment "qwen" is invalid',
        f"* {IMAGE}: InvalidSpec: is 'vllm/../openai:v0.32.0': is no image reference",
        "* spec.pools.unified.tensorParallel: ParallelismInvalid: is 5: tensorParallel 5 does not",
        "divide the 16 attention heads; 1, 2, 4, 8, 16 work",
    ):
        assert word in answer.stderr
    assert kubectl("get", "llmd", "-n", world.namespace, "-o", "name").stdout == ""


async def test_faults_are_in_the_details_for_machines(world, deployment):
    status, answer = await world.create(broken(deployment))
    causes = {(cause["reason"], cause["field"]) for cause in answer["details"]["causes"]}

    assert status == 422
    assert causes == {
        ("InvalidSpec", IMAGE),
        ("ParallelismInvalid", "spec.pools.unified.tensorParallel"),
    }
    assert "LLMDeployment qwen is refused (2 faults):\n- " in answer["message"]


async def test_a_warning_is_shown_and_is_short_enough_for_kubectl(world, deployment):
    deployment["spec"]["engine"]["extraArgs"] = ["--trust-remote-code"]

    answer = await by_kubectl(deployment)
    lines = [line for line in answer.stderr.splitlines() if line.startswith("Warning: ")]

    assert answer.returncode == 0
    assert any("TrustsOthers: spec.engine.extraArgs" in line for line in lines)
    assert all(len(line) <= 256 + len("Warning: ") for line in lines)


async def test_a_dry_run_is_reviewed_and_stores_nothing(world, deployment):
    good = await by_kubectl(deployment, "--dry-run=server")
    bad = await by_kubectl(broken(deployment), "--dry-run=server")

    assert good.returncode == 0, good.stderr
    assert "is invalid" in bad.stderr
    assert kubectl("get", "llmd", "-n", world.namespace, "-o", "name").stdout == ""


async def test_an_update_is_reviewed_and_told_what_it_does(world, deployment):
    await by_kubectl(deployment)
    deployment["spec"]["engine"]["maxModelLen"] = 8192

    rolls = await by_kubectl(deployment)
    deployment["spec"]["pools"]["unified"]["replicas"] = 2
    scales = await by_kubectl(deployment)
    refused = await by_kubectl(broken(deployment))

    assert "Warning: UpdateRollsPods: spec.engine.maxModelLen" in rolls.stderr
    assert (scales.returncode, scales.stderr) == (0, "")
    assert refused.returncode != 0


async def test_status_and_deletion_are_nobodys_to_review(world, deployment):
    await by_kubectl(deployment)
    before = world.replicas[0].reviews()
    patch = json.dumps({"status": {"observedGeneration": 1}})
    words = ("qwen", "-n", world.namespace)

    kubectl("patch", "llmd", *words, "--subresource=status", "--type=merge", "-p", patch)
    kubectl("delete", "llmd", *words, "--wait=false")

    assert world.replicas[0].reviews() == before


async def test_a_namespace_with_the_label_is_left_alone(world, deployment):
    kubectl("label", "namespace", world.namespace, "tidegate.io/admission=skip")
    deployment["spec"]["pools"]["unified"]["tensorParallel"] = 5

    assert (await by_kubectl(deployment)).returncode == 0


def may(world, user, *rules):
    """Give a user rights in the namespace."""
    role = f"role-{user}"
    for number, (verbs, resources) in enumerate(rules):
        name = f"{role}-{number}"
        words = ("-n", world.namespace)
        kubectl("create", "role", name, f"--verb={verbs}", f"--resource={resources}", *words)
        kubectl("create", "rolebinding", name, f"--role={name}", f"--user={user}", *words)


WRITER = (("get,create,update,patch", "llmdeployments.tidegate.io"), ("create", "pods"))


def with_token(deployment):
    token = {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}}
    deployment["spec"]["model"]["source"] = token
    return deployment


async def test_who_may_not_read_a_secret_does_not_get_it_by_us(world, deployment):
    may(world, "ann", *WRITER)
    may(world, "bob", *WRITER, ("get", "secrets"))

    ann = await by_kubectl(with_token(deployment), "--as=ann")
    bob = await by_kubectl(with_token(deployment), "--as=bob")

    assert "(Forbidden)" in ann.stderr
    assert "AccessDenied: spec.model.source.huggingFace.tokenSecretRef: ann may not get" in (
        ann.stderr
    )
    assert f"secrets hub in the namespace {world.namespace}" in ann.stderr
    assert bob.returncode == 0, bob.stderr


async def test_who_may_not_make_pods_does_not_get_them_by_us(world, deployment):
    may(world, "cid", WRITER[0])

    answer = await by_kubectl(deployment, "--as=cid")

    assert "cid may not create pods" in answer.stderr


async def test_without_the_webhook_nothing_of_ours_is_let_in_and_all_else_is(world, deployment):
    await by_kubectl(deployment)
    await world.replicas[0].stop()
    other = {**deployment, "metadata": {**deployment["metadata"], "name": "other"}}
    words = ("-n", world.namespace)

    refused = await by_kubectl(other)
    patch = json.dumps({"status": {"observedGeneration": 1}})
    kubectl("create", "configmap", "free", *words)
    kubectl("patch", "llmd", "qwen", *words, "--subresource=status", "--type=merge", "-p", patch)
    kubectl("delete", "llmd", "qwen", *words, "--wait=false")

    assert 'failed calling webhook "mutate.tidegate.io"' in refused.stderr


async def test_every_replica_answers_and_one_that_leaves_is_not_missed(world, deployment):
    follower = await world.replica(leads=False)
    await world.ready()
    for _ in range(8):
        assert (await world.create(deployment, dry=True))[0] == 201
    seen = [replica.calls() for replica in world.replicas]
    leaving = world.replicas.pop(0)
    await leaving.stop()

    for _ in range(4):
        assert (await world.create(deployment, dry=True))[0] == 201
    assert min(seen) > 0
    assert follower.calls() == seen[1] + 8, "a change and a review each"
