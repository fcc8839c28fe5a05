"""The chart, as whoever runs a cluster meets it: tested, upgraded, removed and installed again."""

import pytest
from e2e import helm, operator_install
from e2e.kube import Not, wait_until
from e2e.operator_install import NAME, NAMESPACE

TRUST_SECONDS = 90.0
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
