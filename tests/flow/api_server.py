"""An API server in memory: server-side apply, preconditions, garbage collection, faults, lag.

Enough of the real one for the pass: a test in e2e runs the same pass against a real one.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.api.wire import canonical_quantity
from tidegate.core.names import GPU_RESOURCE, LABEL_DEPLOYMENT
from tidegate.core.nodes import GpuPod
from tidegate.flow.ports import Document, ReadFailed, Ref, WriteFailed

Key = tuple[str, str, str]
CRD = "LLMDeployment"


class Crash(Exception):
    """The operator's process ends here."""


@dataclass
class Fault:
    """What happens to a call: an HTTP status (None: no answer), before or after the write."""

    status: int | None
    after: bool = False


@dataclass
class ApiServer:
    """`objects` are replaced, never changed; so old states are kept for stale reads at no cost."""

    time: Callable[[], str]
    objects: dict[Key, Document] = field(default_factory=dict)
    applied: dict[Key, Document] = field(default_factory=dict)
    version: int = 100
    uids: int = 0
    lag: dict[str, int] = field(default_factory=dict)  # by kind: states that the cache is behind
    frozen: dict[str, dict[Key, Document]] = field(default_factory=dict)  # caches that stand still
    history: list[dict[Key, Document]] = field(default_factory=list)
    writes: list[tuple[str, str, str]] = field(default_factory=list)
    attempts: int = 0
    reads: list[tuple[str, str, str]] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)  # by name of the pod
    crash_after: int | None = None
    write_fault: Callable[[str, Document], Fault | None] = lambda verb, document: None
    unknown_status: tuple[str, ...] = ()  # fields of the status that the CRD does not have
    read_fault: Callable[[str, str], bool] = lambda kind, name: False

    # the port: reads

    def refs(self) -> list[Ref]:
        return [Ref(*key[1:]) for key in sorted(self._cache(CRD)) if key[0] == CRD]

    def deployment(self, ref: Ref) -> Document | None:
        return self._cache(CRD).get((CRD, ref.namespace, ref.name))

    def nodes(self) -> list[Document]:
        return self._cached("Node")

    def gpu_pods(self) -> list[GpuPod]:
        return [
            GpuPod(
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                pod["spec"].get("nodeName"),
                gpus_of(pod),
                pod["metadata"].get("labels", {}).get(LABEL_DEPLOYMENT),
            )
            for pod in self._cached("Pod")
            if pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def owned(self, kind: str, ref: Ref) -> list[Document]:
        return [
            found
            for found in self._cached(kind)
            if found["metadata"]["namespace"] == ref.namespace
            and found["metadata"].get("labels", {}).get(LABEL_DEPLOYMENT) == ref.name
        ]

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        self.reads.append(("get", kind, name))
        if self.read_fault(kind, name):
            raise ReadFailed(f"{kind} {name}: no answer")
        return self.objects.get((kind, namespace, name))

    async def pod_log(self, namespace: str, pod: str, *, previous: bool, tail_lines: int) -> str:
        self.reads.append(("log", "Pod", pod))
        if self.read_fault("Pod", pod):
            raise ReadFailed(f"the log of {pod}: no answer")
        return self.logs.get(pod, "")

    async def start_of_log(self, namespace: str, pod: str, limit_bytes: int) -> str:
        self.reads.append(("log", "Pod", pod))
        if self.read_fault("Pod", pod):
            raise ReadFailed(f"the log of {pod}: no answer")
        return self.logs.get(pod, "")[:limit_bytes]

    def _cache(self, kind: str) -> Mapping[Key, Document]:
        if kind in self.frozen:
            return self.frozen[kind]
        behind = self.lag.get(kind, 0)
        if not behind or not self.history:
            return self.objects
        return self.history[max(0, len(self.history) - behind)]

    def _cached(self, kind: str) -> list[Document]:
        return [found for key, found in sorted(self._cache(kind).items()) if key[0] == kind]

    # the port: writes

    async def apply(self, document: Document) -> Document:
        key = key_of(document)
        live = self.objects.get(key)
        wanted = copy.deepcopy(document)
        seen = {k: wanted["metadata"].pop(k, None) for k in ("uid", "resourceVersion")}

        def change() -> Document:
            check(live, seen, document)
            before = self.applied.get(key, {}) if live else {}
            self.applied[key] = wanted
            merged = merge(without(live or {}, before, wanted), wanted)
            return self._store(default(merged), live)

        return self._write("apply", document, change)

    async def scale(self, document: Document, replicas: int) -> Document:
        def change() -> Document:
            live = self.objects.get(key_of(document))
            check(live, document["metadata"], document)
            assert live is not None
            return self._store({**live, "spec": {**live["spec"], "replicas": replicas}}, live)

        return self._write("scale", document, change)

    async def delete(self, document: Document) -> None:
        def change() -> Document:
            live = self.objects.get(key_of(document))
            if live is not None:
                check(live, document["metadata"], document)
                self.remove(key_of(document))
            return document

        self._write("delete", document, change)

    async def set_status(self, ref: Ref, resource_version: str, status: Document) -> Document:
        key = (CRD, ref.namespace, ref.name)
        about = {"kind": CRD, "metadata": {"namespace": ref.namespace, "name": ref.name}}

        def change() -> Document:
            live = self.objects.get(key)
            if live is None:
                raise WriteFailed(404, "not found", CRD, ref.name)
            check(live, {"resourceVersion": resource_version}, about)
            known = {k: v for k, v in status.items() if k not in self.unknown_status}
            return self._store({**live, "status": copy.deepcopy(known)}, live)

        return self._write("status", about, change)

    async def emit(self, ref: Ref, kind: str, reason: str, message: str) -> None:
        self.events.append((kind, reason, message))

    def _write(self, verb: str, document: Document, change: Callable[[], Document]) -> Document:
        self.attempts += 1
        fault = self.write_fault(verb, document)
        kind, name = document["kind"], document["metadata"]["name"]
        if fault and not fault.after:
            raise WriteFailed(fault.status, "injected", kind, name)
        stored = change()
        self.writes.append((verb, kind, name))
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash_after = None
                raise Crash
        if fault:
            raise WriteFailed(fault.status, "injected", kind, name)
        return stored

    # what others do

    def freeze(self, *kinds: str) -> None:
        """Let the caches of some kinds stand still as they are now."""
        self.frozen = {kind: self.objects for kind in kinds}

    def put(self, document: Document) -> Document:
        """Store an object as somebody else would."""
        live = self.objects.get(key_of(document))
        return self._store(copy.deepcopy(document), live)

    def patch(self, key: Key, **parts: Any) -> Document:
        """Change top-level parts of an object."""
        return self._store({**self.objects[key], **parts}, self.objects[key])

    def remove(self, key: Key) -> None:
        """Delete an object and all that it owns."""
        gone = self.objects.get(key)
        if gone is None:
            return
        self._remember()
        self.objects = {k: v for k, v in self.objects.items() if k != key}
        self.applied.pop(key, None)
        for other, found in list(self.objects.items()):
            owners = found["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.remove(other)

    def _store(self, document: Document, live: Document | None) -> Document:
        if live is not None and same(document, live):
            return live
        self._remember()
        self.version += 1
        metadata = dict(document["metadata"])
        if live is None:
            self.uids += 1
            metadata |= {
                "uid": f"uid-{self.uids}",
                "creationTimestamp": self.time(),
                "generation": 1,
            }
        else:
            changed = document.get("spec") != live.get("spec")
            kept = ("uid", "creationTimestamp")
            metadata |= {name: live["metadata"][name] for name in kept}
            metadata["generation"] = live["metadata"]["generation"] + changed
        metadata["resourceVersion"] = str(self.version)
        stored = {**document, "metadata": metadata}
        self.objects = {**self.objects, key_of(stored): stored}
        return stored

    def _remember(self) -> None:
        self.history.append(self.objects)
        del self.history[:-200]


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def gpus_of(pod: Document) -> int:
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(GPU_RESOURCE, 0))
        for container in pod["spec"]["containers"]
    )


def check(live: Document | None, seen: Mapping[str, Any], about: Document) -> None:
    """Hold preconditions as the API server does."""
    for name in ("uid", "resourceVersion"):
        wanted = seen.get(name)
        if wanted is not None and (live is None or live["metadata"][name] != wanted):
            raise WriteFailed(409, f"{name} differs", about["kind"], about["metadata"]["name"])


def same(one: Document, other: Document) -> bool:
    def bare(document: Document) -> Document:
        metadata = {
            key: value
            for key, value in document["metadata"].items()
            if key not in ("uid", "resourceVersion", "generation", "creationTimestamp")
        }
        return {**document, "metadata": metadata}

    return bare(one) == bare(other)


def merge(base: Any, over: Any) -> Any:
    """Lay what is applied over what is there; lists of named things are merged by name."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merge(base.get(key), value) for key, value in over.items()}}
    if isinstance(base, list) and isinstance(over, list) and named(base) and named(over):
        mine = {entry["name"]: entry for entry in over}
        kept = [merge(entry, mine.pop(entry["name"], {})) for entry in base]
        return kept + list(mine.values())
    return copy.deepcopy(over)


def without(live: Any, before: Any, now: Any) -> Any:
    """Take away what was applied before and is not applied any more."""
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(now, dict):
        return {
            key: without(value, before.get(key), now.get(key)) if key in now else value
            for key, value in live.items()
            if key in now or key not in before
        }
    if isinstance(live, list) and named(live) and named(before or []) and named(now or []):
        gone = {e["name"] for e in before or []} - {e["name"] for e in now or []}
        return [entry for entry in live if entry["name"] not in gone]
    return live


def named(entries: Any) -> bool:
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and "name" in entry for entry in entries
    )


def default(document: Document) -> Document:
    """Drop what is not stored, spell quantities as they are stored, and add some defaults."""
    stored: Document = tidied(document)
    if stored["kind"] == "Deployment":
        pod = stored["spec"]["template"]["spec"]
        pod.setdefault("restartPolicy", "Always")
        pod.setdefault("dnsPolicy", "ClusterFirst")
        for container in pod["containers"]:
            container.setdefault("terminationMessagePath", "/dev/termination-log")
            resources = container.setdefault("resources", {})
            limits = resources.get("limits", {})
            resources["requests"] = {**limits, **resources.get("requests", {})}
    if stored["kind"] == "Service":
        stored["spec"].setdefault("sessionAffinity", "None")
    return stored


def tidied(value: Any, parent: str = "") -> Any:
    if isinstance(value, dict):
        pairs = ((key, tidied(entry, key)) for key, entry in value.items())
        return {
            key: canonical_quantity(entry) if parent in ("limits", "requests") else entry
            for key, entry in pairs
            if not (entry in (None, "", [], {}) and key != "emptyDir")
            and not (entry is False and key in ("publishNotReadyAddresses", "readOnly"))
        }
    if isinstance(value, list):
        return [tidied(entry) for entry in value]
    return value
