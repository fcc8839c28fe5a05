"""A control plane of the bench's own with hollow nodes: real API server, real controllers, no pods.

It is made for one run and removed after it, beside whatever other cluster is up. The API server
writes an audit log of the operator's calls: what a client counts of itself is checked by it.
"""

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import host, node_classes
from e2e.cluster.api import Client
from e2e.cluster.cluster import Cluster
from e2e.cluster.hollow import HollowNodes
from e2e.cluster.settings import Networks, Settings

Document = dict[str, Any]

STATE = Path("/var/tmp/tidegate-bench")
NETWORKS = Networks(lan="10.141.0", pods="10.142", services="10.143.0")
OPERATOR_USER = "tidegate-bench-operator"
CLASSES = ("h100-80gb", "a100-80gb")
GPUS_OF_A_NODE = 8
NAMESPACE = "bench"
_CALLERS = 8
_TICKS = os.sysconf("SC_CLK_TCK")
_WATCH_SECONDS = 20
"""Less than the client waits for an event."""


@dataclass(frozen=True)
class Collection:
    """A kind in the bench's namespace, and when an object of it counts as ready."""

    path: str
    is_ready: Callable[[Document], bool]


def is_served(document: Document) -> bool:
    """Say whether an LLMDeployment tells that everything its current spec asks for is ready."""
    conditions = document.get("status", {}).get("conditions", ())
    return any(
        (entry["type"], entry["status"]) == ("Ready", "True")
        and entry["observedGeneration"] == document["metadata"]["generation"]
        for entry in conditions
    )


def is_rolled_out(document: Document) -> bool:
    """Say whether a Deployment has all its pods ready."""
    status = document.get("status", {})
    is_seen = status.get("observedGeneration") == document["metadata"]["generation"]
    return bool(is_seen and status.get("readyReplicas") == document["spec"]["replicas"])


LLMDEPLOYMENTS = Collection(
    f"/apis/tidegate.io/v1alpha1/namespaces/{NAMESPACE}/llmdeployments", is_served
)
DEPLOYMENTS = Collection(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", is_rolled_out)
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@contextlib.contextmanager
def started(nodes: int) -> Iterator[Cluster]:
    """Keep a control plane with some hollow nodes, half of each class; remove it all after that.

    Another bench that has one is waited for.
    """
    lock = STATE.with_name(f"{STATE.name}.lock")
    with host.locked(lock):
        try:
            yield from _started(nodes)
        finally:
            lock.unlink(missing_ok=True)


def _started(nodes: int) -> Iterator[Cluster]:
    STATE.mkdir(parents=True, exist_ok=True)
    policy = STATE / "audit.json"
    policy.write_text(json.dumps(_audit_policy()), encoding="utf-8")
    audit = f"--audit-policy-file={policy} --audit-log-path={audit_log()} --audit-log-maxsize=1000"
    settings = Settings(
        state=STATE,
        cache=Settings.from_environment().cache,
        name="tgbench",
        networks=NETWORKS,
        more_arguments={"kube-apiserver": audit},
    )
    cluster = Cluster(settings)
    try:
        cluster.up(count=0)
        with cluster.client() as client:
            client.apply(f"/api/v1/namespaces/{NAMESPACE}", _namespace(NAMESPACE))
        plan = node_classes.load()
        first, second = (
            node_classes.NodeClass(**{**vars(plan.named(name)), "gpus": GPUS_OF_A_NODE})
            for name in CLASSES
        )
        with HollowNodes(settings, nodes, first):
            for number in range(2, nodes + 1, 2):
                cluster.set_node_class(f"hollow-{number}", second)
            yield cluster
    finally:
        cluster.clean()


def audit_log() -> Path:
    """Return where the API server writes the operator's calls."""
    return STATE / "audit.log"


def audited() -> Counter[tuple[str, str]]:
    """Return the operator's calls by (verb, resource), as the API server has seen them begin."""
    calls: Counter[tuple[str, str]] = Counter()
    for line in audit_log().read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        ref = event.get("objectRef", {})
        resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
        calls[event["verb"], resource or event["requestURI"].partition("?")[0]] += 1
    return calls


def create(cluster: Cluster, path: str, documents: Sequence[Document]) -> None:
    """Apply many objects, as many at once as a few clients can."""
    local = threading.local()

    def one(document: Document) -> None:
        if not hasattr(local, "client"):
            local.client = cluster.client()
        local.client.apply(f"{path}/{document['metadata']['name']}", document)

    with ThreadPoolExecutor(_CALLERS) as pool:
        list(pool.map(one, documents))


def remove_all(cluster: Cluster, path: str, seconds: float) -> None:
    """Delete every object of a collection, and wait until no pod is left.

    Raises:
        TimeoutError: Some pods stayed.
    """
    with cluster.client() as client:
        client.request("DELETE", path, {"propagationPolicy": "Background"})
        deadline = time.monotonic() + seconds
        while pods := client.get(f"{PODS}?limit=1")["items"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pods[0]['metadata']['name']} is still there")
            time.sleep(1.0)


def versions(cluster: Cluster, paths: Iterable[str]) -> dict[str, str]:
    """Return the resourceVersion of every object of some collections, by uid."""
    with cluster.client() as client:
        items = [item for path in paths for item in client.get(path)["items"]]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


class Readiness:
    """Notes when each object of a collection became ready first, by a watch; a context manager."""

    def __init__(self, cluster: Cluster, collection: Collection) -> None:
        self._cluster = cluster
        self._collection = collection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readiness", daemon=True)
        self.since: dict[str, float] = {}

    def __enter__(self) -> "Readiness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=_WATCH_SECONDS + 5)

    def wait(self, count: int, seconds: float) -> None:
        """Wait until so many are ready.

        Raises:
            TimeoutError: They were not in time.
        """
        deadline = time.monotonic() + seconds
        while len(self.since) < count:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise TimeoutError(f"{len(self.since)} of {count} became ready")
            time.sleep(0.1)

    def _run(self) -> None:
        with self._cluster.client() as client:
            while not self._ended.is_set():
                self._follow(client)

    def _follow(self, client: Client) -> None:
        """Look at everything, then at what changes, until the watch ends."""
        found = client.get(self._collection.path)
        for document in found["items"]:
            self._note(document)
        version = found["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        for event in client.watch(f"{self._collection.path}?{query}"):
            if event["type"] in ("ADDED", "MODIFIED"):
                self._note(event["object"])
            if self._ended.is_set():
                return

    def _note(self, document: Document) -> None:
        if self._collection.is_ready(document):
            self.since.setdefault(document["metadata"]["name"], time.monotonic())


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_of(cluster: Cluster) -> Mapping[str, float]:
    """Return the CPU time of each process of the control plane."""
    return {name: cpu_seconds(pid) for name, pid in cluster.pids().items() if pid}


def _namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _audit_policy() -> Document:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["ResponseStarted", "ResponseComplete"],
        "rules": [
            {"level": "Metadata", "users": [OPERATOR_USER]},
            {"level": "None"},
        ],
    }
