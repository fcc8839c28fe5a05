"""Hollow nodes, for scale: Ready by their Leases, with GPUs on paper and pods that run nothing.

A pod that is bound to a hollow node becomes Running and Ready, and goes when it is deleted, as the
API server sees it. No process, network or log is behind it.
"""

import contextlib
import datetime
import heapq
import http.client
import ipaddress
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import host
from .api import MERGE_PATCH, STRATEGIC_PATCH, ApiError, Client, Document
from .node_classes import GPU_RESOURCE, NodeClass
from .settings import Settings

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LABEL = "tidegate-cluster/hollow"
"""On every hollow node, so that they can be found and removed."""
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
WATCH_SECONDS = 20
"""Less than the client waits for an event."""
RETRY_SECONDS = 1.0
GONE = (404, 409)
"""A pod that was deleted meanwhile, or that has another uid now."""
POD_NETWORK = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses of pods that do not exist: the range for benchmarks, routed nowhere here."""


@dataclass(order=True)
class _Task:
    """A pod to look after at a time."""

    due: float
    number: int
    pod: Document = field(compare=False)


class HollowNodes:
    """Keeps hollow nodes `hollow-1` to `hollow-<count>`; use it as a context manager.

    On exit the nodes and their pods are removed.
    """

    def __init__(
        self, settings: Settings, count: int, node_class: NodeClass, start_seconds: float = 0.0
    ) -> None:
        """`start_seconds` is the time from a pod's binding until it is Ready."""
        self._settings = settings
        self._names = [f"hollow-{number}" for number in range(1, count + 1)]
        self._node_class = node_class
        self._start_seconds = start_seconds
        self._end = threading.Event()
        self._tasks: list[_Task] = []
        self._arrival = threading.Condition()
        self._numbers = itertools.count(1)
        self._addresses = itertools.cycle(POD_NETWORK.hosts())
        self._seen: set[tuple[str, bool]] = set()
        self._threads = [
            threading.Thread(target=self._repeat, args=(loop,), name=loop.__name__, daemon=True)
            for loop in (self._renew, self._watch, self._work)
        ]

    def __enter__(self) -> "HollowNodes":
        with Client(self._settings) as client:
            for name in self._names:
                register(client, name, self._node_class)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        with self._arrival:
            self._arrival.notify_all()
        with Client(self._settings) as client:
            remove(client)
        for thread in self._threads:
            thread.join(timeout=2 * RETRY_SECONDS)

    def _repeat(self, loop: Any) -> None:
        """Run a loop until the end; an API server that is away or refuses is asked again."""
        while not self._end.is_set():
            try:
                with Client(self._settings) as client:
                    loop(client)
            except (OSError, http.client.HTTPException, ApiError, ValueError) as error:
                if not self._end.is_set():
                    host.say(f"hollow nodes: {loop.__name__}: {error}")
                    self._end.wait(RETRY_SECONDS)

    def _renew(self, client: Client) -> None:
        while not self._end.wait(RENEW_SECONDS):
            for name in self._names:
                client.request("PATCH", f"{LEASES}/{name}", {"spec": lease_spec(name)}, MERGE_PATCH)

    def _watch(self, client: Client) -> None:
        """List all pods, then watch them; again from the start when the watch ends."""
        listed = client.get("/api/v1/pods")
        for pod in listed["items"]:
            self._notice(pod)
        version = listed["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        for event in client.watch(f"/api/v1/pods?{query}"):
            if event["type"] == "ERROR":
                return
            if event["type"] == "DELETED":
                uid = event["object"]["metadata"]["uid"]
                self._seen -= {(uid, True), (uid, False)}
            else:
                self._notice(event["object"])

    def _notice(self, pod: Document) -> None:
        """Put a pod on the list of tasks, if it is on one of our nodes and something is due."""
        is_ending = "deletionTimestamp" in pod["metadata"]
        key = (pod["metadata"]["uid"], is_ending)
        is_waiting = pod["status"].get("phase") == "Pending"
        if pod["spec"].get("nodeName") not in self._names or not (is_ending or is_waiting):
            return
        if key not in self._seen:
            self._seen.add(key)
            self._add(pod, 0 if is_ending else self._start_seconds)

    def _add(self, pod: Document, delay_seconds: float) -> None:
        with self._arrival:
            due = time.monotonic() + delay_seconds
            heapq.heappush(self._tasks, _Task(due, next(self._numbers), pod))
            self._arrival.notify()

    def _work(self, client: Client) -> None:
        for pod in self._due():
            try:
                self._settle(client, pod)
            except ApiError as error:
                if error.status not in GONE:
                    self._add(pod, RETRY_SECONDS)
                    raise
            except (OSError, http.client.HTTPException):
                self._add(pod, RETRY_SECONDS)
                raise

    def _settle(self, client: Client, pod: Document) -> None:
        """Do what a kubelet would do for the pod."""
        if "deletionTimestamp" in pod["metadata"]:
            delete_pod(client, pod)
        else:
            patch = running(pod, str(next(self._addresses)))
            client.request("PATCH", f"{pod_path(pod)}/status", patch, STRATEGIC_PATCH)

    def _due(self) -> Iterator[Document]:
        """Pods whose time has come, until the end."""
        while not self._end.is_set():
            with self._arrival:
                wait = self._tasks[0].due - time.monotonic() if self._tasks else RENEW_SECONDS
                if wait > 0:
                    self._arrival.wait(wait)
                    continue
                pod = heapq.heappop(self._tasks).pod
            yield pod


def register(client: Client, name: str, node_class: NodeClass) -> None:
    """Make the node and its Lease, or renew what is there."""
    node, status = node_object(name, node_class), node_status(node_class)
    client.apply(f"{NODES}/{name}", node)
    client.request("PATCH", f"{NODES}/{name}/status", {"status": status}, MERGE_PATCH)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": lease_spec(name),
    }
    client.apply(f"{LEASES}/{name}", lease)


def remove(client: Client) -> None:
    """Remove every hollow node with its pods."""
    selector = f"?labelSelector={LABEL}%3Dtrue"
    names = {node["metadata"]["name"] for node in client.get(f"{NODES}{selector}")["items"]}
    client.request("DELETE", f"{NODES}{selector}")
    for pod in client.get("/api/v1/pods")["items"]:
        if pod["spec"].get("nodeName") in names:
            with contextlib.suppress(ApiError):
                delete_pod(client, pod)


def delete_pod(client: Client, pod: Document) -> None:
    """Remove this very pod at once, as a kubelet does when its containers have ended."""
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    client.request("DELETE", pod_path(pod), body)


def pod_path(pod: Document) -> str:
    """The pod's place in the API."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def node_object(name: str, node_class: NodeClass) -> Document:
    """The Node of a hollow node, without its status."""
    labels = {"kubernetes.io/hostname": name, LABEL: "true", **node_class.labels()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
    }


def node_status(node_class: NodeClass) -> Document:
    """A status that offers plenty of everything, and the GPUs of the class."""
    amounts = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "250"}
    amounts[GPU_RESOURCE] = str(node_class.gpus)
    now = timestamp()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Hollow",
        "message": "kept ready by its Lease",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}


def lease_spec(name: str) -> Document:
    """A Lease that is renewed now."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    return {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}


def timestamp() -> str:
    """Now, as the API writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(pod: Document, address: str) -> Document:
    """The patch of a pod's status that makes it Running and Ready."""
    now = timestamp()
    kinds = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {
        "status": {
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds
            ],
            "containerStatuses": containers,
        }
    }


def run(settings: Settings, count: int, node_class: NodeClass, start_seconds: float) -> None:
    """Keep hollow nodes until this process is interrupted or terminated."""
    with HollowNodes(settings, count, node_class, start_seconds):
        host.say(f"{count} hollow node(s) of {node_class.product}; they go when this ends")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
