"""Changes of a running deployment: what restarts, in which order, and what never does."""

from pathlib import Path

import pytest
from e2e import image_tags, llmd, node_gpus
from e2e.cluster import Cluster
from e2e.double import image as double_image
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, Llmd, env, pools_of
from e2e.rollout_watch import RolloutWatch

FOLDER = Path(__file__).parent
NEXT_IMAGE = "localhost/tidegate/engine-double:next"
ROLLOUT_SECONDS = 240.0
A100_NODE = "n1"


@pytest.fixture(scope="module")
def running(local: Cluster, kube, shared_namespace):
    """All deployments, ready: the A100 node has GPUs to spare, the H100 node has none."""
    image_tags.load_again(local, double_image.REFERENCE, NEXT_IMAGE)
    node_gpus.let_have(kube, 16, A100_NODE)
    files = ("surge.yaml", "full.yaml", "recreate.yaml", "pair.yaml")
    deployments = {
        file.removesuffix(".yaml"): llmd.apply(kube, shared_namespace, FOLDER / file)
        for file in files
    }
    for deployment in deployments.values():
        deployment.wait_settled()
    yield deployments
    local.up()


def rolled(deployment: Llmd, change) -> tuple[RolloutWatch, dict]:
    """Change the spec, follow the rollout to its end, and return what the pods went through."""
    before = deployment.status["revision"]
    with RolloutWatch(deployment) as watch:
        deployment.patch(change)
        status = deployment.wait_settled(ROLLOUT_SECONDS)
    assert status["revision"] != before
    revisions = {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}
    assert revisions == {status["revision"]}
    return watch, status


def test_a_new_image_comes_up_beside_the_old_one(running):
    deployment = running["surge"]

    watch, status = rolled(deployment, {"engine": {"image": NEXT_IMAGE}})

    assert status["pods"] == "2/2"
    images = {pod["spec"]["containers"][0]["image"] for pod in deployment.pods()}
    assert images == {NEXT_IMAGE}
    assert watch.least_ready("unified") == 2, "with GPUs to spare no ready pod is ever missing"
    assert watch.most_there("unified") <= 3, "maxSurge is 1"


def test_a_change_of_replicas_restarts_nothing(running):
    deployment = running["surge"]
    revision, uids = deployment.status["revision"], deployment.uids()

    deployment.patch({"pools": {"unified": {"replicas": 3}}})
    status = deployment.wait_settled()
    assert (status["pods"], status["revision"]) == ("3/3", revision)
    assert uids < deployment.uids(), "the pods that were there are still the same"

    more = deployment.uids()
    deployment.patch({"pools": {"unified": {"replicas": 1}}})
    status = deployment.wait_settled()
    assert (status["pods"], status["revision"]) == ("1/1", revision)
    assert deployment.uids() < more


def test_a_kv_dtype_rolls_out_where_no_gpu_is_free(running):
    """Each new pod waits for an old one's GPU; the old ones give way one at a time."""
    deployment = running["full"]
    (before,) = deployment.status["plan"]

    watch, status = rolled(deployment, {"kvCache": {"dtype": "fp8"}})

    assert watch.least_ready("unified") == 3, "maxUnavailable is 1"
    assert watch.most_there("unified") <= 5, "maxSurge is 1"
    (after,) = status["plan"]
    assert after["kvBytesPerToken"] * 2 == before["kvBytesPerToken"]
    assert after["kvTokens"] == 2 * before["kvTokens"]
    assert status["pods"] == "4/4"


def test_recreate_never_mixes_two_revisions(running):
    watch, status = rolled(running["recreate"], {"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})

    assert status["pods"] == "2/2"
    mixed = [moment for moment in watch.moments if len(moment.all_revisions()) > 1]
    assert mixed == [], "the last old pod is gone before the first new one comes"


def test_a_pair_is_replaced_as_a_pair(running):
    """At every moment some prefill pod has a ready decode pod of its own revision beside it."""
    deployment = running["pair"]

    watch, status = rolled(deployment, {"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})

    assert pools_of(deployment.pods()) == {"prefill", "decode"}
    assert status["pods"] == "prefill 1/1, decode 1/1"
    alone = [moment for moment in watch.moments if not moment.complete({"prefill", "decode"})]
    assert alone == []


def test_the_former_spec_applied_again_in_mid_rollout_is_a_rollback(running):
    deployment = running["full"]
    uids, revision = deployment.uids(), deployment.status["revision"]
    broken = "localhost/tidegate/no-such-engine:v0.32.0"

    with RolloutWatch(deployment) as watch:
        deployment.patch({"engine": {"image": broken}})
        deployment.wait_for("Ready", "False", "ImagePullFailed")
        assert deployment.condition("Available")["status"] == "True"
        kept = wait_until("old pods serve", lambda: deployment.uids() & uids or Not("none"), 5)
        deployment.patch({"engine": {"image": double_image.REFERENCE}})
        status = deployment.wait_settled(ROLLOUT_SECONDS)

    assert watch.least_ready("unified") >= 3, "a rollout that fails takes one pod at most"
    assert status["revision"] == revision
    assert kept <= deployment.uids(), "the pods that still served were never restarted"
