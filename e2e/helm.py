"""Helm, with which the operator is installed as a user would install it."""

import json
import shutil
import subprocess
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.settings import Settings
from e2e.kube import Document

CHART = Path(__file__).parents[1] / "charts" / "tidegate"
SECONDS = 240


def program() -> str | None:
    """Return where Helm is: among the local cluster's programs, else on the PATH."""
    return shutil.which("helm", path=binaries.search_path(Settings.from_environment()))


def upgrade(kubeconfig: Path, release: str, namespace: str, values: Document) -> None:
    """Install the chart of this checkout, or bring a release up to it; what is there is taken over.

    Raises:
        AssertionError: It failed; has its words.
    """
    words = ("upgrade", "--install", release, str(CHART), "--namespace", namespace)
    _run(kubeconfig, *words, "--take-ownership", "--values", "-", text=json.dumps(values))


def uninstall(kubeconfig: Path, release: str, namespace: str) -> None:
    """Remove a release."""
    _run(kubeconfig, "uninstall", release, "--namespace", namespace, "--wait")


def run_test(kubeconfig: Path, release: str, namespace: str) -> str:
    """Run the chart's own test and return its log."""
    return _run(kubeconfig, "test", release, "--namespace", namespace, "--logs")


def _run(kubeconfig: Path, *words: str, text: str | None = None) -> str:
    helm = program()
    assert helm is not None, "Helm is not there; run `scripts/cluster build helm`"
    done = subprocess.run(
        [helm, *words, "--kubeconfig", str(kubeconfig)],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}\n{done.stdout}"
    return done.stdout
