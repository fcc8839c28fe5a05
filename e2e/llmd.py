"""An LLMDeployment in a scenario: what it says of itself, and what runs for it."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.kube import Document, Kube, Not, wait_until

OWN = "tidegate.io/deployment"
POOL = "tidegate.io/pool"
REVISION = "tidegate.io/revision"
GATES = "app.kubernetes.io/component=gate"
CHILDREN = (
    "configmaps",
    "deployments",
    "networkpolicies",
    "poddisruptionbudgets",
    "rolebindings",
    "roles",
    "serviceaccounts",
    "services",
)
"""What the operator makes for a deployment."""
READY_SECONDS = 90.0
"""For an engine double on a busy machine; a real engine needs more."""


@dataclass(frozen=True)
class Llmd:
    """One LLMDeployment by its name."""

    kube: Kube
    namespace: str
    name: str

    # what a user does

    def patch(self, change: Mapping[str, Any]) -> None:
        """Change fields of the spec as `kubectl patch --type=merge` does."""
        self.kube.kubectl(
            *("patch", "llmd", self.name, "-n", self.namespace),
            *("--type=merge", "-p", json.dumps({"spec": change})),
        )

    def delete(self) -> None:
        """Delete it, without waiting."""
        self.kube.kubectl(
            "delete", "llmd", self.name, "-n", self.namespace, "--wait=false", "--ignore-not-found"
        )

    # what it says

    @property
    def document(self) -> Document:
        """The resource."""
        return self.kube.get("llmdeployments", self.namespace, self.name)

    @property
    def status(self) -> Document:
        """Its status; empty before the operator has seen it."""
        status: Document = self.document.get("status") or {}
        return status

    def condition(self, kind: str) -> Document | None:
        """Return a condition, None while it is not there or speaks of an older spec."""
        return _condition(self.document, kind)

    def wait_for(self, kind: str, status: str, reason: str = "", seconds: float = 60.0) -> Document:
        """Wait for a condition about the current spec, and return it."""

        def probe() -> Document | Not:
            document = self.document
            found = _condition(document, kind)
            fits = found and found["status"] == status and reason in ("", found["reason"])
            return found if found and fits else Not(_summary(document))

        wanted = f"{kind}={status}" + (f" for {reason}" if reason else "")
        return wait_until(f"{self.namespace}/{self.name} is {wanted}", probe, seconds)

    def wait_ready(self, seconds: float = READY_SECONDS) -> Document:
        """Wait until everything that the current spec asks for is ready; return the status."""
        self.wait_for("Ready", "True", seconds=seconds)
        return self.status

    def wait_settled(self, seconds: float = READY_SECONDS) -> Document:
        """Wait until it is ready and nothing is under way any more, old pods included."""
        self.wait_ready(seconds)
        self.wait_for("Reconciling", "False", seconds=seconds)
        wait_until(
            "pods that were replaced are gone",
            lambda: not self.leaving() or Not([_name(pod) for pod in self.leaving()]),
            seconds,
        )
        return self.status

    @property
    def address(self) -> str:
        """Where clients outside of the cluster's DNS reach its gates, on the local cluster."""
        service = self.kube.get("services", self.namespace, self.name)
        return f"http://{service['spec']['clusterIP']}"

    # what runs

    def pods(self, pool: str = "") -> list[Document]:
        """Return its engines' pods that are not leaving, by name."""
        found = [pod for pod in self._pods(pool) if "deletionTimestamp" not in pod["metadata"]]
        return sorted(found, key=_name)

    def leaving(self) -> list[Document]:
        """Return its engines' pods that are on their way out."""
        return [pod for pod in self._pods() if "deletionTimestamp" in pod["metadata"]]

    def gates(self) -> list[Document]:
        """Return its gates' pods that are not leaving, by name."""
        found = self.kube.list("pods", self.namespace, f"{OWN}={self.name},{GATES}")
        return sorted((p for p in found if "deletionTimestamp" not in p["metadata"]), key=_name)

    def uids(self) -> set[str]:
        """Return what tells its engines' pods apart from any that come later."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def children(self) -> list[Document]:
        """Return everything that the operator made for it."""
        return [
            {**item, "kind": plural}
            for plural in CHILDREN
            for item in self.kube.list(plural, self.namespace, f"{OWN}={self.name}")
        ]

    def events(self) -> list[Document]:
        """Return the Events about it."""
        return [
            event
            for event in self.kube.list("events", self.namespace)
            if event["involvedObject"].get("kind") == "LLMDeployment"
            and event["involvedObject"]["name"] == self.name
        ]

    def _pods(self, pool: str = "") -> list[Document]:
        selector = f"{OWN}={self.name}," + (f"{POOL}={pool}" if pool else POOL)
        return self.kube.list("pods", self.namespace, selector)


def apply(
    kube: Kube, namespace: str, file: Path, name: str = "", change: Mapping[str, Any] | None = None
) -> Llmd:
    """Apply a manifest of one LLMDeployment, under another name or with changed fields if told."""
    text = file.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    if name or change:
        document["metadata"]["name"] = name or document["metadata"]["name"]
        document["spec"] = merged(document["spec"], change or {})
        text = yaml.safe_dump(document, sort_keys=False)
    kube.apply(namespace, text)
    return Llmd(kube, namespace, document["metadata"]["name"])


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a JSON merge patch applied: None removes."""
    result = dict(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def env(**values: object) -> list[dict[str, str]]:
    """Return environment variables of the engine: what the double is told."""
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def is_ready(pod: Document) -> bool:
    """Say whether a pod serves."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def node_of(pod: Document) -> str:
    """Return the node of a pod, empty before it has one."""
    name: str = pod["spec"].get("nodeName", "")
    return name


def pools_of(pods: Collection[Document]) -> set[str]:
    """Return the pools that pods are of."""
    return {pod["metadata"]["labels"][POOL] for pod in pods}


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name


def _condition(document: Document, kind: str) -> Document | None:
    generation = document["metadata"]["generation"]
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition["type"] == kind and condition["observedGeneration"] == generation:
            found: Document = condition
            return found
    return None


def _summary(document: Document) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    parts = [f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions]
    generation = document["metadata"]["generation"]
    return f"generation {generation}; " + ("; ".join(parts) or "no conditions")
