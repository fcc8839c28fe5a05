"""What is kept when a scenario fails: enough to see what happened without running it again."""

import re
from collections.abc import Iterable
from pathlib import Path

from e2e import operator_install
from e2e.kube import Document, Kube

FOLDER = Path(__file__).parents[1] / "artifacts"
_LOG_LINES = 400


def keep(kube: Kube, test: str, namespaces: Iterable[str]) -> Path:
    """Write down the objects, events and logs of some namespaces, the operator's log, the nodes."""
    folder = FOLDER / re.sub(r"[^\w.-]+", "-", test).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    for namespace in namespaces:
        _keep_namespace(kube, folder, namespace)
    words = ("get", "nodes", "-o", "yaml")
    (folder / "nodes.yaml").write_text(kube.try_kubectl(*words).stdout)
    (folder / "operator.log").write_text(operator_install.Operator(kube).log())
    return folder


def _keep_namespace(kube: Kube, folder: Path, namespace: str) -> None:
    def write(name: str, *words: str) -> None:
        done = kube.try_kubectl("-n", namespace, *words)
        (folder / f"{namespace}-{name}").write_text(done.stdout or done.stderr)

    write("llmd.yaml", "get", "llmd", "-o", "yaml")
    write("objects.txt", "get", "all,pdb,networkpolicy,serviceaccount", "-o", "wide")
    write("objects.yaml", "get", "deployments,replicasets,pods,services", "-o", "yaml")
    write("events.txt", "get", "events", "--sort-by=.lastTimestamp")
    for pod in _pods(kube, namespace):
        name = pod["metadata"]["name"]
        write(f"{name}.log", "logs", name, f"--tail={_LOG_LINES}")
        statuses = pod["status"].get("containerStatuses") or ()
        if any(status["restartCount"] for status in statuses):
            write(f"{name}.previous.log", "logs", name, "--previous", f"--tail={_LOG_LINES}")


def _pods(kube: Kube, namespace: str) -> list[Document]:
    return kube.list("pods", namespace)
