"""The operator in the cluster: installed as by a user, of the current code, and crashed."""

import signal
from dataclasses import dataclass
from pathlib import Path

from e2e import fingerprint, helm, pod_processes
from e2e.engine import metrics
from e2e.engine.metrics import Metrics
from e2e.kube import Document, Kube, Not, path, wait_until

CHECKOUT = Path(__file__).parents[1]
NAMESPACE = "tidegate-system"
NAME = "tidegate"
LEASE = "tidegate-operator"
METRICS_PORT = 8080
CLASS_GRACE_SECONDS = 20
RESYNC_SECONDS = 5
SETTINGS = {"resync": f"{RESYNC_SECONDS}s", "classGrace": f"{CLASS_GRACE_SECONDS}s"}
"""Shorter times than a user has, so that a scenario need not wait for minutes."""
ROLLOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Operator:
    """The installed operator."""

    kube: Kube

    def pods(self) -> list[Document]:
        """Return its pods that are not leaving."""
        found = self.kube.list("pods", NAMESPACE, f"app.kubernetes.io/name={NAME}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait_ready(self, seconds: float = ROLLOUT_SECONDS) -> None:
        """Wait until its Deployment has all its pods."""
        self.kube.kubectl(
            *("-n", NAMESPACE, "rollout", "status", f"deployment/{NAME}"),
            f"--timeout={seconds:.0f}s",
            seconds=seconds + 10,
        )

    def leader(self) -> Document:
        """Return the pod that holds the Lease; wait for one if it is being handed over."""
        return wait_until("an operator pod leads", self._leader, 60)

    def _leader(self) -> Document | Not:
        lease = self.kube.find("leases", NAMESPACE, LEASE)
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        for pod in self.pods():
            if holder.startswith(f"{pod['metadata']['name']}_"):
                return pod
        return Not(f"the holder is {holder!r}")

    def metrics(self, pod: Document | None = None) -> Metrics:
        """Return what a pod of it (the leader's) tells of itself."""
        place = self.kube.pod_url(pod or self.leader(), METRICS_PORT)
        return metrics.scrape(place)

    def log(self) -> str:
        """Return the log of its pods, what they said before a restart included."""
        words = ("-n", NAMESPACE, "logs", f"-lapp.kubernetes.io/name={NAME}", "--tail=-1")
        now = self.kube.try_kubectl(*words, "--prefix").stdout
        before = self.kube.try_kubectl(*words, "--prefix", "--previous").stdout
        return before + now

    def delete_leader(self) -> Document:
        """Take the very pod that leads away, without any grace, and return it."""
        leader = self.leader()
        metadata = leader["metadata"]
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": metadata["uid"]},
        }
        self.kube.request("DELETE", f"{path('pods', NAMESPACE)}/{metadata['name']}", options)
        return leader

    def delete_pod(self) -> None:
        """Take the leading pod away without any grace."""
        name = self.leader()["metadata"]["name"]
        self.kube.kubectl("-n", NAMESPACE, "delete", "pod", name, "--grace-period=0", "--force")


def install(kube: Kube, image: str, replicas: int = 2, config: Document | None = None) -> Operator:
    """Install this checkout's chart and operator, or bring what is installed up to it.

    `config` has settings beyond those of every scenario.

    Raises:
        AssertionError: The image has other code than the checkout.
    """
    operator = Operator(kube)
    if not kube.try_kubectl("get", "namespace", NAMESPACE).stdout:
        kube.kubectl("create", "namespace", NAMESPACE)
    label = "pod-security.kubernetes.io/enforce=restricted"
    kube.kubectl("label", "namespace", NAMESPACE, label, "--overwrite")
    interrupted = "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)"
    kube.kubectl("-n", NAMESPACE, "delete", "secrets", f"-l{interrupted}")
    helm.upgrade(kube.kubeconfig, NAME, NAMESPACE, values(image, replicas, config))
    kube.kubectl("wait", "--for=condition=Established", "crd/llmdeployments.tidegate.io")
    is_current = _has_run(operator) and _installed(kube) == _current()
    if not is_current or any(
        map(pod_processes.restarts, operator.pods())
    ):  # after a restart, others wait long
        kube.kubectl("-n", NAMESPACE, "rollout", "restart", f"deployment/{NAME}")
    operator.wait_ready()
    assert _installed(kube) == _current(), (
        f"{image} has other code than this checkout; run `scripts/images --load operator`"
    )
    return operator


def values(image: str, replicas: int, config: Document | None = None) -> Document:
    """Return the values of the installation under test."""
    repository, _, tag = image.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag},
        "replicas": replicas,
        "config": SETTINGS | (config or {}),
    }


def _has_run(operator: Operator) -> bool:
    """Say whether its pods become ready; of what another run left behind, they may never do."""
    try:
        operator.wait_ready()
    except AssertionError:
        return False
    return True


def _current() -> str:
    return fingerprint.of(CHECKOUT / "operator" / "tidegate", CHECKOUT / "templates")


def _installed(kube: Kube) -> str:
    return kube.kubectl(
        *("-n", NAMESPACE, "exec", "-i", f"deployment/{NAME}", "--", "python", "-"),
        text=Path(fingerprint.__file__).read_text(encoding="utf-8"),
    ).strip()


# crashes: the operator's processes are on this machine where the cluster is the local one


def crash(operator: Operator, pod: Document) -> None:
    """End a pod's process as a bug or the kernel would: at once, and with the Lease still held."""
    restarts = pod_processes.restarts(pod)
    name = pod["metadata"]["name"]
    pod_processes.send(pod, pod_processes.TIDEGATE, signal.SIGKILL)

    def restarted() -> bool:
        found = operator.kube.find("pods", NAMESPACE, name)
        return found is not None and pod_processes.restarts(found) > restarts

    wait_until(f"the container of {name} is started again", restarted, 60)


def pause(pod: Document) -> None:
    """Stop a pod's process in the middle of what it does; `resume` lets it go on."""
    pod_processes.send(pod, pod_processes.TIDEGATE, signal.SIGSTOP)


def resume(pod: Document) -> None:
    """Let a paused process go on."""
    pod_processes.send(pod, pod_processes.TIDEGATE, signal.SIGCONT)


def count(scraped: Metrics, verbs: tuple[str, ...], resources: tuple[str, ...] = ()) -> float:
    """Return how many calls to the API server a scrape tells, of some verbs and resources."""
    return sum(
        sample.value
        for family in scraped.families
        for sample in family.samples
        if sample.name == "tidegate_api_calls_total"
        and sample.labels["verb"] in verbs
        and (not resources or sample.labels["resource"] in resources)
    )
