"""For those who do not use Helm in a cluster: one file, and kustomize over it."""

import os
import shutil
import subprocess

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.settings import Settings
from tests.chart import helm
from tests.chart.helm import IMAGE, is_hook, one, render

EXAMPLE = helm.TOP / "examples" / "kustomize" / "kustomization.yml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The file, and what is in it."""
    output = tmp_path_factory.mktemp("dist") / "install.yaml"
    environment = os.environ | {"OUTPUT": str(output), "NAMESPACE": helm.NAMESPACE}
    environment["PATH"] = f"{os.path.dirname(helm.program())}:{environment['PATH']}"
    words = [f"--set-string=image.{key}={value}" for key, value in IMAGE.items()]
    subprocess.run(
        [helm.TOP / "scripts" / "install-yaml", *words],
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return output, list(yaml.safe_load_all(output.read_text(encoding="utf-8")))


def test_one_file_holds_the_namespace_and_what_the_chart_installs(installed):
    _, (namespace, *others) = installed

    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert others == [document for document in render({}) if not is_hook(document)]


def test_the_example_of_kustomize_builds_on_it(installed, tmp_path):
    kubectl = shutil.which("kubectl", path=binaries.search_path(Settings.from_environment()))
    if kubectl is None:
        pytest.skip("kubectl is not there: scripts/cluster build kube")
    output, documents = installed
    shutil.copy(output, tmp_path / "install.yaml")
    shutil.copy(EXAMPLE, tmp_path)
    done = subprocess.run(
        [kubectl, "kustomize", tmp_path], check=True, capture_output=True, text=True, timeout=60
    )
    built = list(yaml.safe_load_all(done.stdout))
    spec = one(built, "Deployment")["spec"]["template"]["spec"]
    container = spec["containers"][0]

    assert len(built) == len(documents)
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert container["image"] == "registry.example.com/tidegate:0.1.0"
    assert container["env"] == [{"name": "TIDEGATE_IMAGE", "value": container["image"]}]
