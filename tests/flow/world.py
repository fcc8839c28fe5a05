"""A cluster in memory around the API server: Deployment controller, scheduler, engines, a clock.

The pods become ready some seconds after they were given a node, or fail as `fates` says.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidegate.core.names import LABEL_REVISION, MEASUREMENTS
from tidegate.flow import overload, reconcile
from tidegate.flow.gather import is_history
from tidegate.flow.ports import Document, Ref, Settings

from .api_server import CRD, ApiServer, Crash, gpus_of, key_of
from .documents import (
    a_spec,
    container,
    is_ending,
    is_ready,
    labels_of,
    matches,
    not_ready,
    owns,
)
from .engines import Engines, image_id
from .evidences import Evidences
from .gates import Gates, told
from .metrics import Metrics

A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
_MEMORY = {A100: "81920", H100: "81559"}


@dataclass
class ScriptedClock:
    """Wall time and monotonic time; the wall may jump."""

    wall: float = 1_800_000_000.0
    ticks: float = 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds

    def text(self) -> str:
        return datetime.fromtimestamp(int(self.wall), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Fate:
    """How engines of an image end instead of becoming ready."""

    exit_code: int = 1
    log: str = ""
    waiting: str | None = None


@dataclass
class World:
    """One cluster and one operator process; `restart` makes it a new process."""

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    settings: Settings = field(default_factory=Settings)
    start_seconds: float = 2.0
    end_seconds: float = 1.0
    patience: int = 3  # rounds without a change after which all is at rest
    fates: dict[str, Fate] = field(default_factory=dict)  # by image, or by revision
    refs: list[Ref] = field(default_factory=list)
    least_ready: dict[str, int] = field(default_factory=dict)  # by pool, over the last `run`
    evidences: Evidences | None = None  # without it, nothing judges a canary
    ticks_failed: dict[Ref, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.api = ApiServer(self.clock.text)
        self.engines = Engines()
        self.gates = Gates(self.api)
        self.metrics = Metrics()
        self.memory = reconcile.Memory()
        self.since: dict[str, float] = {}
        self.names = 0

    # what users and the infrastructure do

    def node(self, name: str, product: str = A100, gpus: int = 4, **labels: str) -> None:
        self.api.put(
            {
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "nvidia.com/gpu.product": product,
                        "nvidia.com/gpu.memory": _MEMORY[product],
                        "nvidia.com/gpu.count": str(gpus),
                        **labels,
                    },
                },
                "spec": {},
                "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
            }
        )

    def apply(self, name: str = "chat", namespace: str = "default", **spec: Any) -> Ref:
        """Apply a resource as a user does; parts of the spec replace those of the default one."""
        ref = Ref(namespace, name)
        if ref not in self.refs:
            self.refs.append(ref)
        document = {
            "apiVersion": "tidegate.io/v1alpha1",
            "kind": CRD,
            "metadata": {"name": name, "namespace": namespace},
            "spec": a_spec(**spec),
        }
        live = self.api.objects.get((CRD, namespace, name))
        if live is not None:
            document["status"] = live.get("status", {})
        self.api.put(document)
        return ref

    def foreign_pod(self, name: str, node: str, gpus: int) -> None:
        self.api.put(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "other"},
                "spec": {
                    "nodeName": node,
                    "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
                },
                "status": {"phase": "Running"},
            }
        )

    # the operator

    async def reconcile(self, ref: Ref | None = None) -> reconcile.Outcome:
        return await reconcile.reconcile(
            ref or self.refs[0],
            self.api,
            self.engines,
            self.gates,
            self.clock,
            self.settings,
            self.memory,
            self.evidences,
        )

    async def tick(self) -> list[Ref]:
        """Have the slow loop look once; return whose passes it wakes."""
        ticked = await overload.tick(self.api, self.metrics, self.clock, self.settings, self.memory)
        self.ticks_failed.update(ticked.failed)
        return ticked.wake

    async def oversee(self, seconds: float) -> None:
        """Let the slow loop and the passes that it wakes work for a time."""
        ends_at = self.clock.now() + seconds
        while self.clock.now() < ends_at:
            for ref in await self.tick():
                try:
                    await self.reconcile(ref)
                except Crash:
                    self.restart()
            self.step()
            self.clock.pass_by(self.settings.tick.interval_seconds)

    def branch(self) -> "World":
        """Return another world that goes on from here by itself; they share what never changes."""
        api = self.api
        documents = (*api.objects.values(), *api.applied.values())
        shared = {id(each): each for each in (api.objects, *documents)}
        shared[id(api.history)] = list(api.history)
        return copy.deepcopy(self, shared)

    def restart(self) -> None:
        """End the process and begin a new one, which knows only what the cluster knows."""
        self.memory = reconcile.Memory()

    async def run(
        self, rounds: int = 120, watch: Callable[[], None] | None = None, seconds: float = 1.0
    ) -> None:
        """Let operator and cluster work until neither has anything to do."""
        idle = 0
        for _ in range(rounds):
            before = self.api.version, len(self.api.objects)
            for ref in self.refs:
                try:
                    await self.reconcile(ref)
                except Crash:
                    self.restart()
            self.step()
            self.clock.pass_by(seconds)
            if watch:
                watch()
            idle = 0 if (self.api.version, len(self.api.objects)) != before else idle + 1
            if idle > self.patience:
                return
        raise AssertionError(f"still moving: {self.api.writes[-6:]} {self.status()}")

    async def run_for(self, rounds: int, every: int = 1) -> None:
        """Let the cluster work for some rounds, and the operator in each `every`-th of them."""
        for number in range(rounds):
            for ref in self.refs if number % every == 0 else ():
                try:
                    await self.reconcile(ref)
                except Crash:
                    self.restart()
            self.step()
            self.clock.pass_by(1.0)

    # the cluster

    def step(self) -> None:
        self._control()
        self._schedule()
        self._engines()
        self._report()
        self.gates.step(self.clock.text())
        for pool in self.least_ready:
            self.least_ready[pool] = min(self.least_ready[pool], len(self.ready(pool)))

    def _control(self) -> None:
        for deployment in self.deployments():
            pods = [pod for pod in self.pods() if owns(deployment, pod) and not is_ending(pod)]
            wanted = deployment["spec"]["replicas"]
            for _ in range(wanted - len(pods)):
                self._make_pod(deployment)
            by_worth = sorted(
                pods, key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod))
            )
            for pod in by_worth[: max(0, len(pods) - wanted)]:
                self._end(pod)

    def _report(self) -> None:
        for deployment in self.deployments():
            pods = [pod for pod in self.pods() if owns(deployment, pod) and not is_ending(pod)]
            ready = sum(map(is_ready, pods))
            status = {"replicas": len(pods), **({"readyReplicas": ready} if ready else {})}
            self.api.patch(key_of(deployment), status=status)

    def _make_pod(self, deployment: Document) -> None:
        self.names += 1
        template = deployment["spec"]["template"]
        metadata = deployment["metadata"]
        self.api.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"{metadata['name']}-{self.names}",
                    "namespace": metadata["namespace"],
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [
                        {
                            "kind": "ReplicaSet",  # the Deployment's: this cluster stores none
                            "name": f"{metadata['name']}-5d4f8c7b9",
                            "uid": metadata["uid"],
                            "controller": True,
                        }
                    ],
                },
                "spec": template["spec"],
                "status": {"phase": "Pending"},
            }
        )

    def _end(self, pod: Document) -> None:
        key = key_of(pod)
        if not pod["spec"].get("nodeName"):
            self.api.remove(key)
            return
        metadata = {**pod["metadata"], "deletionTimestamp": self.clock.text()}
        self.since[pod["metadata"]["uid"]] = self.clock.ticks
        self.api.patch(key, metadata=metadata)

    def _schedule(self) -> None:
        free = self.free()
        for pod in self.pods():
            if pod["spec"].get("nodeName") or is_ending(pod):
                continue
            fitting = [
                name
                for name, gpus in sorted(free.items(), key=lambda item: (-item[1], item[0]))
                if gpus >= gpus_of(pod) and matches(pod, self._node(name))
            ]
            if fitting:
                free[fitting[0]] -= gpus_of(pod)
                self.since[pod["metadata"]["uid"]] = self.clock.ticks
                self.api.patch(key_of(pod), spec={**pod["spec"], "nodeName": fitting[0]})
            else:
                self._refuse(pod)

    def _refuse(self, pod: Document) -> None:
        count = len(self.api.nodes())
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"0/{count} nodes are available: {count} Insufficient nvidia.com/gpu. "
            "preemption: 0/1 nodes are available.",
        }
        self.api.patch(key_of(pod), status={"phase": "Pending", "conditions": [condition]})

    def _engines(self) -> None:
        for pod in self.pods():
            age = self.clock.ticks - self.since.get(pod["metadata"]["uid"], self.clock.ticks)
            if is_ending(pod):
                if age >= self.end_seconds:
                    self.api.remove(key_of(pod))
            elif pod["spec"].get("nodeName") and age >= self.start_seconds:
                self.api.patch(key_of(pod), status=self._status(pod))

    def _status(self, pod: Document) -> Document:
        revision = labels_of(pod).get(LABEL_REVISION, "")
        fate = self.fates.get(revision) or self.fates.get(pod["spec"]["containers"][0]["image"])
        if fate is None:
            if is_ready(pod):
                status: Document = pod["status"]
                return status
            self.api.logs[pod["metadata"]["name"]] = self.engines.log(pod)
            image = pod["spec"]["containers"][0]["image"]
            return {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": self.clock.text()}
                ],
                "containerStatuses": [
                    container(ready=True, state={"running": {}}, imageID=image_id(image))
                ],
            }
        self.api.logs[pod["metadata"]["name"]] = fate.log
        if fate.waiting:
            waiting = {"reason": fate.waiting, "message": f"{fate.waiting} of the image"}
            return not_ready(container(state={"waiting": waiting}))
        ended = {"exitCode": fate.exit_code, "reason": "Error", "containerID": "c-1"}
        return not_ready(
            container(
                restartCount=3,
                state={"waiting": {"reason": "CrashLoopBackOff"}},
                lastState={"terminated": ended},
            )
        )

    # looking

    def _node(self, name: str) -> Document:
        return self.api.objects["Node", "", name]

    def free(self) -> dict[str, int]:
        left = {
            node["metadata"]["name"]: int(node["status"]["allocatable"]["nvidia.com/gpu"])
            for node in self._kind("Node")
        }
        for pod in self._kind("Pod"):
            node = pod["spec"].get("nodeName")
            if node in left:
                left[node] -= gpus_of(pod)
        return left

    def _kind(self, kind: str) -> list[Document]:
        return [found for key, found in sorted(self.api.objects.items()) if key[0] == kind]

    def deployments(self) -> list[Document]:
        """Return the Deployments of slices."""
        return [d for d in self._kind("Deployment") if "tidegate.io/pool" in labels_of(d)]

    def pods(self) -> list[Document]:
        return [pod for pod in self._kind("Pod") if "tidegate.io/pool" in labels_of(pod)]

    def ready(self, pool: str) -> list[Document]:
        return [
            pod
            for pod in self.pods()
            if labels_of(pod)["tidegate.io/pool"] == pool and is_ready(pod) and not is_ending(pod)
        ]

    def status(self, ref: Ref | None = None) -> Document:
        ref = ref or self.refs[0]
        status: Document = self.api.objects[CRD, ref.namespace, ref.name].get("status", {})
        return status

    def condition(self, kind: str, ref: Ref | None = None) -> Document:
        return next(c for c in self.status(ref)["conditions"] if c["type"] == kind)

    def shape(self) -> dict[str, Any]:
        """Return what matters of the end state: no uid, time or name of a pod.

        Nor the measurements, nor a rollout's history: a write that fails is tried again later.
        """
        shape: dict[str, Any] = {}
        for (kind, namespace, name), found in self.api.objects.items():
            if kind in ("Node", "Pod") or name == MEASUREMENTS or is_history(found):
                continue
            metadata = {
                key: value
                for key, value in found["metadata"].items()
                if key in ("labels", "annotations")
            }
            status = found.get("status", {})
            conditions = {
                c["type"]: (c["status"], c["reason"], c["message"])
                for c in status.get("conditions", ())
            }
            rest = {
                k: v for k, v in status.items() if k not in ("conditions", "observedGeneration")
            }
            if "rollout" in rest:  # all of it but its times
                stands = ("summary", "phase", "stable", "canary", "step", "isJudged")
                rest["rollout"] = {k: v for k, v in rest["rollout"].items() if k in stands}
            says = found.get("spec")
            if kind == "ConfigMap":
                says, metadata = told(found), metadata["labels"]
            shape[f"{kind} {namespace}/{name}"] = (metadata, says, conditions, rest)
        shape["pods"] = sorted(
            (labels_of(pod)["tidegate.io/pool"], is_ready(pod)) for pod in self.pods()
        )
        return shape
