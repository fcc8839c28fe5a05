"""A real API server takes all that the chart renders; dry runs, so nothing is installed."""

import pytest
import yaml
from tests.chart import helm
from tests.chart.test_render import VALUES
from tests.shell.conftest import kubectl


@pytest.mark.parametrize("case", VALUES)
def test_every_object_is_taken_in_a_restricted_namespace_without_a_warning(namespace, case):
    for mode in ("enforce", "warn"):
        kubectl("label", "namespace", namespace, f"pod-security.kubernetes.io/{mode}=restricted")
    kubectl(
        "-n", namespace, "create", "serviceaccount", "tidegate-test"
    )  # pods need it to be there
    documents = [
        document
        for document in helm.render(VALUES[case], namespace)
        if not document["apiVersion"].startswith("cert-manager.io/")  # has kinds of its own
        and document["kind"] != "CustomResourceDefinition"  # installed already, by the fixture
    ]
    words = ("apply", "--server-side", "--dry-run=server", "--force-conflicts", "--validate=strict")
    done = kubectl(*words, "-f", "-", input=yaml.safe_dump_all(documents), check=False)

    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    assert len(done.stdout.splitlines()) == len(documents)
