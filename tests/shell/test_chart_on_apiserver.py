"""A real API server takes all that the chart renders; dry runs, so nothing is installed."""

import copy
import uuid

import pytest
import yaml
from tests.chart import helm
from tests.chart.test_render import CERT_MANAGER, VALUES
from tests.shell import foreign_definitions
from tests.shell.conftest import kubectl

MONITORED = {
    "podMonitors": {"enabled": True, "labels": {"release": "prometheus"}},
    "rules": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True, "annotations": {"folder": "Tidegate"}},
}
CASES = VALUES | {
    "monitoring": {"monitoring": MONITORED},
    "everything of others": {**CERT_MANAGER, "monitoring": MONITORED},
}
DRY_RUN = (
    *("apply", "--server-side", "--dry-run=server", "--force-conflicts", "--validate=strict"),
    *("-f", "-"),
)


@pytest.fixture(scope="module")
def foreign_kinds(kubeconfig):
    """The API server knows the kinds of cert-manager and of the Prometheus operator, by fields."""
    kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-",
        input=foreign_definitions.manifest(),
    )  # fmt: skip
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *foreign_definitions.NAMES)
    yield
    kubectl("delete", "--wait=false", *foreign_definitions.NAMES)


@pytest.fixture(scope="module")
def restricted(kubeconfig):
    """A namespace that enforces Pod Security, where `helm test` has its account."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    modes = (f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn"))
    kubectl("label", "namespace", name, *modes)
    kubectl("-n", name, "create", "serviceaccount", "tidegate-test")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.usefixtures("foreign_kinds")
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_taken_in_a_restricted_namespace_without_a_warning(restricted, case):
    documents = [
        document
        for document in helm.render(CASES[case], restricted)
        if document["kind"] != "CustomResourceDefinition"  # installed already, by the fixture
    ]
    done = kubectl(*DRY_RUN, input=yaml.safe_dump_all(documents), check=False)

    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    assert len(done.stdout.splitlines()) == len(documents)


@pytest.mark.usefixtures("foreign_kinds")
@pytest.mark.parametrize(
    ("kind", "where", "named"),
    [
        ("Certificate", ["spec", "privateKey"], "algorithmm"),
        ("PodMonitor", ["spec", "podMetricsEndpoints", 0], "honourLabels"),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0], "expression"),
    ],
)
def test_a_misspelt_field_of_their_kinds_would_be_seen(restricted, kind, where, named):
    documents = helm.render(CASES["everything of others"], restricted)
    document = copy.deepcopy(next(d for d in documents if d["kind"] == kind))
    part = document
    for step in where:
        part = part[step]
    part[named] = "x"
    done = kubectl(*DRY_RUN, input=yaml.safe_dump(document), check=False)

    assert done.returncode != 0
    assert named in done.stderr
