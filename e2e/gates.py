"""What the gates of a deployment say of themselves on their admin ports."""

import json
from collections.abc import Iterator

from e2e.engine import metrics
from e2e.kube import Document
from e2e.llmd import Llmd

ADMIN_PORT = 9090


def text(deployment: Llmd, gate: Document, path: str) -> str:
    """Return a page of one gate's admin port."""
    return deployment.kube.text(deployment.kube.pod_path(gate, ADMIN_PORT) + path)


def document(deployment: Llmd, gate: Document, path: str) -> Document:
    """Return a document of one gate's admin port."""
    found: Document = json.loads(text(deployment, gate, path))
    return found


def views(deployment: Llmd, pod: str = "") -> Iterator[Document]:
    """Yield each gate's view of each pod, or of the one of a name."""
    for gate in deployment.gates():
        for view in document(deployment, gate, "/podz")["pods"]:
            if pod in ("", view["name"]):
                yield view


def reserved(deployment: Llmd) -> int:
    """Return the tokens that all gates together have reserved on all pods."""
    return sum(view["reservedTokens"] for view in views(deployment))


def counted(deployment: Llmd, name: str, **labels: str) -> float:
    """Return the sum of a metric over the gates; 0 where none of them has counted any."""
    pages = [metrics.parse(text(deployment, gate, "/metrics")) for gate in deployment.gates()]
    return sum(page.value(name, **labels) or 0.0 for page in pages)
