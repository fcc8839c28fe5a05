"""Helm, and the chart as it renders it; none of it needs a cluster."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e import helm

TOP = Path(__file__).parents[2]
CHART = helm.CHART
NAMESPACE = "tg"
KUBERNETES = "1.30.0"
IMAGE = {"repository": "registry.example.com/tidegate", "tag": "1"}

Document = dict[str, Any]


@functools.cache
def program() -> str:
    """Return where Helm is; without it, nothing of the chart can be tested."""
    found = helm.program()
    if found is None:
        pytest.skip("Helm is not there: scripts/cluster build helm")
    return found


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Helm, whatever comes of it."""
    return subprocess.run([program(), *words], capture_output=True, text=True, timeout=60)


def template(values: Document, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    """Render the chart with values over its defaults."""
    return subprocess.run(
        [
            *(program(), "template", "tidegate", str(CHART), "--namespace", namespace),
            *("--kube-version", KUBERNETES, "--values", "-"),
        ],
        input=json.dumps({"image": IMAGE} | values),
        capture_output=True,
        text=True,
        timeout=60,
    )


def render(values: Document, namespace: str = NAMESPACE) -> list[Document]:
    """Return the objects of an installation, those of `helm test` included."""
    done = template(values, namespace)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def is_hook(document: Document) -> bool:
    """Say whether an object belongs to `helm test` only."""
    return "helm.sh/hook" in (document["metadata"].get("annotations") or {})


def one(documents: list[Document], kind: str, name: str = "tidegate") -> Document:
    """Return the one object of a kind and a name."""
    (found,) = (d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name)
    return found
