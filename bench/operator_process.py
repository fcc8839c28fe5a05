"""The operator as one process beside a bench's cluster, with the permissions of an installation."""

import http.client
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from e2e.cluster import certificates, network
from e2e.cluster.api import Client
from e2e.cluster.cluster import Cluster
from e2e.engine import metrics
from e2e.engine.metrics import Metrics

from bench import private_cluster
from bench.private_cluster import Document
from tidegate.api import crd
from tidegate.shell import install

NAMESPACE = "tidegate-system"
PORT = 18080
READY_SECONDS = 60.0
WRITES = ("apply", "create", "delete", "patch", "update")
_READ_SECONDS = 30.0
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class OperatorProcess:
    """The operator while it runs."""

    pid: int
    host_namespace: str

    def metrics(self) -> Metrics:
        """Return what it tells of itself."""
        status, text = self._get("/metrics")
        assert status == 200, text
        return metrics.parse(text)

    def is_ready(self) -> bool:
        """Say whether its caches are filled."""
        try:
            return self._get("/readyz")[0] == 200
        except OSError:
            return False

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        return private_cluster.cpu_seconds(self.pid)

    def memory_bytes(self, kind: str = "VmRSS") -> int:
        """Return its resident memory, or the most that it had (`VmHWM`)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == kind:
                return int(value.split()[0]) * 1024
        raise LookupError(kind)

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        connection.sock = network.connect(self.host_namespace, "127.0.0.1", PORT, _READ_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def started(
    cluster: Cluster, resync_seconds: int, log: Path, profile: Path | None = None
) -> Iterator[OperatorProcess]:
    """Install the CRD and the permissions, run the operator, and end it after that.

    Args:
        cluster: Where it works.
        resync_seconds: After how long it looks at everything again.
        log: Gets its log.
        profile: Gets a profile (cProfile) of it; it is slower then.

    Raises:
        TimeoutError: It was not ready in time; `log` says why.
    """
    kubeconfig, settings = _install(cluster), cluster.settings
    configured = {"namespace": NAMESPACE, "resync": f"{resync_seconds}s", "httpPort": PORT}
    file = settings.state / "operator.yaml"
    file.write_text(yaml.safe_dump(configured), encoding="utf-8")
    module = ["-m", "cProfile", "-o", str(profile), "-m"] if profile else ["-m"]
    command = [sys.executable, *module, "tidegate", "run"]
    command += ["--config", str(file), "--kubeconfig", str(kubeconfig)]
    with log.open("w") as output, network.inside(settings.host_namespace):
        process = subprocess.Popen(command, stderr=output)
    operator = OperatorProcess(process.pid, settings.host_namespace)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not operator.is_ready():
            if time.monotonic() > deadline or process.poll() is not None:
                raise TimeoutError(f"the operator did not get ready; see {log}")
            time.sleep(0.2)
        yield operator
    finally:
        process.terminate()
        process.wait(timeout=READY_SECONDS)


def calls(before: Metrics, after: Metrics) -> Counter[tuple[str, str]]:
    """Return the calls to the API server between two scrapes, by verb and resource."""
    found: Counter[tuple[str, str]] = Counter()
    for sign, scraped in ((1, after), (-1, before)):
        for family in scraped.families:
            for sample in family.samples:
                if sample.name == "tidegate_api_calls_total":
                    key = (sample.labels["verb"], sample.labels["resource"])
                    found[key] += sign * int(sample.value)
    return +found


def passes(before: Metrics, after: Metrics) -> Counter[str]:
    """Return the passes between two scrapes, by result."""
    found: Counter[str] = Counter()
    for sign, scraped in ((1, after), (-1, before)):
        for family in scraped.families:
            for sample in family.samples:
                if sample.name == "tidegate_reconcile_passes_total":
                    found[sample.labels["result"]] += sign * int(sample.value)
    return +found


def pass_seconds(before: Metrics, after: Metrics, share: float) -> float:
    """Return a percentile of the passes' durations, interpolated in the histogram's bucket."""
    name = "tidegate_reconcile_seconds_bucket"
    counts: dict[float, float] = {}
    for sign, scraped in ((1.0, after), (-1.0, before)):
        for family in scraped.families:
            for sample in family.samples:
                if sample.name == name:
                    bound = float(sample.labels["le"])
                    counts[bound] = counts.get(bound, 0.0) + sign * sample.value
    bounds = sorted(counts)
    wanted = share * counts[bounds[-1]]
    low, below = 0.0, 0.0
    for bound in bounds[:-1]:
        if counts[bound] >= wanted:
            inside = counts[bound] - below
            return low + (bound - low) * ((wanted - below) / inside if inside else 1.0)
        low, below = bound, counts[bound]
    return low


def _install(cluster: Cluster) -> Path:
    """Give the operator a name, the permissions of `tidegate manifests`, and our kind."""
    settings = cluster.settings
    certificates.make_kubeconfig(
        settings, private_cluster.OPERATOR_USER, f"/CN={private_cluster.OPERATOR_USER}"
    )
    with cluster.client() as client:
        definition = yaml.safe_load(crd.generate())
        client.apply(f"{_CRDS}/{definition['metadata']['name']}", definition)
        _wait_established(client, definition["metadata"]["name"])
        for document in install.manifests("none", NAMESPACE, 1):
            if document["kind"] in _PATHS:
                path = f"{_PATHS[document['kind']]}/{document['metadata']['name']}"
                client.apply(path, _for_user(document))
    return settings.configuration / f"{private_cluster.OPERATOR_USER}.conf"


def _for_user(document: Document) -> Document:
    """Bind to the process's user what is bound to an account in an installation."""
    if "subjects" not in document:
        return document
    group = "rbac.authorization.k8s.io"
    user = {"apiGroup": group, "kind": "User", "name": private_cluster.OPERATOR_USER}
    return {**document, "subjects": [user]}


def _wait_established(client: Client, name: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        status = client.get(f"{_CRDS}/{name}").get("status") or {}
        conditions = status.get("conditions") or ()
        if any((c["type"], c["status"]) == ("Established", "True") for c in conditions):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the API server did not take {name}")
        time.sleep(0.2)
