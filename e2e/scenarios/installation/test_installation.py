"""The chart, as whoever runs a cluster meets it: tested, upgraded, removed and installed again."""

import pytest
from e2e import helm, operator_install
from e2e.kube import Not, wait_until
from e2e.llmd import env
from e2e.operator_install import NAME, NAMESPACE
from e2e.rollout_watch import RolloutWatch

TRUST_SECONDS = 90.0
ROLLOUT_SECONDS = 240.0
PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
PRODUCT_LABEL = "nvidia.com/gpu.product"
LESS_MEMORY = [
    {"matchLabels": {PRODUCT_LABEL: product}, "product": product, "memoryTaken": "20Gi"}
    for product in PRODUCTS
]
"""Classes of node whose engines would be given less memory: their pods are rendered otherwise."""
OTHER_SETTINGS = {"podAnnotations": {"example.com/release": "next"}}


def bundle(kube):
    """The authorities by which the API server knows the webhook."""
    return kube.kubectl(
        *("get", "validatingwebhookconfiguration", NAME),
        *("-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"),
    )


@pytest.fixture
def values(pytestconfig):
    """The values of the installation under test."""
    return operator_install.values(pytestconfig.getoption("operator_image"), replicas=2)


@pytest.fixture
def installed_again(kube, operator, pytestconfig):
    """Whatever a scenario does to the installation, the others find it as it was."""
    yield
    operator_install.install(kube, pytestconfig.getoption("operator_image"))


def test_the_charts_own_test_tells_that_reviews_work(kube, operator):
    operator.leader()
    wait_until(
        "the API server trusts it", lambda: bundle(kube) or Not("no caBundle"), TRUST_SECONDS
    )

    log = helm.run_test(kube.kubeconfig, NAME, NAMESPACE)

    # Helm prints the pod's log once for each object of the test
    assert len({line for line in log.splitlines() if line.startswith("ok     ")}) == 2, log
    assert "ParallelismInvalid" in log
    kept = kube.try_kubectl("-n", NAMESPACE, "get", "role,serviceaccount", "-o", "name").stdout
    assert "tidegate-test" not in kept, "the test's rights are gone with it"


@pytest.mark.usefixtures("installed_again")
def test_engines_outlive_an_upgrade_an_uninstall_and_a_new_installation(
    kube, operator, apply, values, pytestconfig
):
    deployment = apply("unified.yaml")
    deployment.wait_settled()
    engines, trusted = deployment.uids(), bundle(kube)

    helm.upgrade(kube.kubeconfig, NAME, NAMESPACE, values | OTHER_SETTINGS)
    operator.wait_ready()
    operator.leader()
    assert bundle(kube) == trusted, "Helm leaves alone what the operator wrote"
    deployment.wait_settled()
    assert deployment.uids() == engines

    helm.uninstall(kube.kubeconfig, NAME, NAMESPACE)
    assert kube.find("deployments", NAMESPACE, NAME) is None
    assert kube.kubectl("get", "crd", "llmdeployments.tidegate.io")
    assert deployment.document, "what users wrote stays"
    assert deployment.uids() == engines

    operator_install.install(kube, pytestconfig.getoption("operator_image"))
    operator.leader()
    deployment.patch({"pools": {"unified": {"replicas": 2}}})
    deployment.wait_settled()
    assert engines < deployment.uids(), "it is taken up where it was, with one pod more"


def memory_share(deployment):
    """What share of each GPU's memory the engines were told to take."""
    (pod,) = deployment.pods()
    flags = pod["spec"]["containers"][0]["args"]
    return next(flag for flag in flags if flag.startswith("--gpu-memory-utilization"))


@pytest.mark.usefixtures("installed_again")
def test_an_upgrade_that_renders_pods_otherwise_restarts_no_engine(kube, operator, apply, values):
    deployment = apply("unified.yaml")
    deployment.wait_settled()
    deployment.wait_for("RenderingCurrent", "True")
    engines, share = deployment.uids(), memory_share(deployment)
    otherwise = values | {"config": values["config"] | {"nodeClasses": LESS_MEMORY}}

    def upgrade(to):
        helm.upgrade(kube.kubeconfig, NAME, NAMESPACE, to)
        operator.wait_ready()
        operator.leader()

    upgrade(otherwise)
    deployment.wait_for("RenderingCurrent", "False", "RenderedBefore")
    deployment.wait_settled()
    assert deployment.uids() == engines

    upgrade(values)
    deployment.wait_for("RenderingCurrent", "True")
    assert deployment.uids() == engines

    upgrade(otherwise)
    deployment.wait_for("RenderingCurrent", "False", "RenderedBefore")
    deployment.patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})
    deployment.wait_settled(ROLLOUT_SECONDS)
    deployment.wait_for("RenderingCurrent", "True")
    assert not deployment.uids() & engines
    assert memory_share(deployment) != share


@pytest.mark.usefixtures("installed_again")
def test_a_leader_lost_in_mid_rollout_leads_to_no_pod_too_many(kube, operator, apply):
    """The other replica goes on where the lost one was: each new pod is made once, and stays."""
    deployment = apply("unified.yaml", change={"pools": {"unified": {"replicas": 3}}})
    deployment.wait_settled()
    old = deployment.status["revision"]

    with RolloutWatch(deployment) as watch:
        deployment.patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})
        watch.wait("pods of two revisions", lambda now: len(now.all_revisions()) == 2, 90)
        lost = operator.delete_leader()
        assert old in watch.moments[-1].all_revisions(), "it was lost in the middle"
        status = deployment.wait_settled(ROLLOUT_SECONDS)

    assert operator.leader()["metadata"]["uid"] != lost["metadata"]["uid"]
    assert status["revision"] != old
    assert watch.least_ready("unified") >= 2
    made = {uid for uid, (_, revision) in watch.made.items() if revision == status["revision"]}
    assert made == deployment.uids()
    assert len(made) == 3
