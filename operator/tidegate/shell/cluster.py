"""The real `Cluster` port: reads from caches, writes by server-side apply."""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from tidegate.api.llmdeployment import GROUP, KIND, VERSION
from tidegate.core import nodes as node_classes
from tidegate.core.admission import Selector, selectors
from tidegate.core.names import ENGINE_CONTAINER, FIELD_MANAGER, LABEL_DEPLOYMENT
from tidegate.core.nodes import GpuPod
from tidegate.flow.ports import Document, ReadFailed, Ref, WriteFailed
from tidegate.shell import kept_documents
from tidegate.shell.api_server import ApiServer, NoAnswer, message_of
from tidegate.shell.cache import Cache, deployment_of, without_managed_fields
from tidegate.shell.kind_caches import KindCaches
from tidegate.shell.resources import BY_KIND, OWNED_KINDS

_LOG = logging.getLogger(__name__)
_SELECTING = ("Deployment", "PodDisruptionBudget", "Service")
"""Kinds of which those of others are held, too: one that selects an engine's pods is in its way."""
_EVENT_LIMIT = 1024
_LOG_SECONDS = 5.0
"""Longest wait for a log: the kubelet of a sick node may not answer, and a pass waits for it."""
_NO_LOG = (400, 404)
"""What is answered for a container that has not begun, or did not end yet, or is gone."""


class KubernetesCluster:
    """One API server as the pass sees it; `wake(ref)` is called when a deployment may have changed.

    `may_write` is asked before every write: a process that is not the leader writes nothing.
    With `namespaces` nothing else of the cluster is read but its nodes: what GPUs pods of other
    namespaces hold is not known then.
    """

    def __init__(
        self,
        api: ApiServer,
        wake: Callable[[Ref], None],
        may_write: Callable[[], bool] = lambda: True,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._api = api
        self._wake = wake
        self._may_write = may_write
        self._nodes_seen: dict[str, Any] = {}
        self.nodes_version = 0
        """Grows whenever a node's part in planning changed."""
        self._gpu_pods: dict[tuple[str, str], tuple[GpuPod, ...]] = {}
        self.deployments = KindCaches(
            BY_KIND[KIND], without_managed_fields, self._deployment_changed, namespaces=namespaces
        )
        self._nodes = Cache(BY_KIND["Node"], kept_documents.node, self._node_changed)
        self._pods = KindCaches(
            BY_KIND["Pod"], kept_documents.pod, self._pod_changed, namespaces=namespaces
        )
        self._selectors: dict[str, dict[tuple[str, str], Selector]] = {}
        self._owned = {kind: self._cache_of_owned(kind, namespaces) for kind in OWNED_KINDS}

    def _cache_of_owned(self, kind: str, namespaces: Sequence[str]) -> KindCaches:
        resource = BY_KIND[kind]
        if kind not in _SELECTING:
            keep, changed = kept_documents.child, self._child_changed
            return KindCaches(resource, keep, changed, LABEL_DEPLOYMENT, namespaces)
        changed_one = partial(self._selecting_changed, kind)
        keep_part = kept_documents.child_or_selector
        return KindCaches(resource, keep_part, changed_one, namespaces=namespaces)

    def caches(self) -> list[Cache]:
        """Return every cache, to be run."""
        kinds = (self.deployments, self._pods, *self._owned.values())
        return [self._nodes, *(cache for kind in kinds for cache in kind.caches())]

    def silences(self) -> dict[str, float]:
        """Return the seconds since each watch was heard last, by its resource; of many the most."""
        silences: dict[str, float] = {}
        for cache in self.caches():
            plural = cache.resource.plural
            silences[plural] = max(cache.silence_seconds(), silences.get(plural, 0.0))
        return silences

    def synced(self) -> bool:
        """Say whether every cache has been filled once; before that nothing may be decided."""
        return all(cache.synced.is_set() for cache in self.caches())

    def refs(self) -> list[Ref]:
        """Return every deployment."""
        return [_ref(document) for document in self.deployments.all()]

    def wake_all(self) -> None:
        """Have every deployment looked at."""
        for ref in self.refs():
            self._wake(ref)

    # reads

    def deployment(self, ref: Ref) -> Document | None:
        """Return the LLMDeployment, or None when it is gone."""
        return self.deployments.get(ref.namespace, ref.name)

    def nodes(self) -> Sequence[Document]:
        """Return every Node."""
        return list(self._nodes.all())

    def gpu_pods(self) -> Sequence[GpuPod]:
        """Return what every pod holds that has not ended and asks for GPUs, by resource."""
        return [held for pods in self._gpu_pods.values() for held in pods]

    def owned(self, kind: str, ref: Ref) -> Sequence[Document]:
        """Return the objects of a kind that carry the deployment's label."""
        return self._pods.of(ref) if kind == "Pod" else self._owned[kind].of(ref)

    def selectors(self, namespace: str) -> Sequence[Selector]:
        """Return what objects of others select pods by."""
        return list(self._selectors.get(namespace, {}).values())

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Ask the API server for one object."""
        status, answer = await self._read(BY_KIND[kind].path(namespace, name))
        if status == 404:
            return None
        if status >= 400:
            raise ReadFailed(f"{kind} {namespace}/{name}: {status}: {message_of(answer)}")
        document: Document = answer
        return document

    async def pod_log(self, namespace: str, pod: str, *, previous: bool, tail_lines: int) -> str:
        """Return the last lines of the engine's log; empty when there is none."""
        query = {"tailLines": str(tail_lines)}
        if previous:
            query["previous"] = "true"
        return await self._engine_log(namespace, pod, query)

    async def start_of_log(self, namespace: str, pod: str, limit_bytes: int) -> str:
        """Return the first bytes of the running engine's log; empty when there is none."""
        return await self._engine_log(namespace, pod, {"limitBytes": str(limit_bytes)})

    async def _engine_log(self, namespace: str, pod: str, query: dict[str, str]) -> str:
        status, answer = await self._read(
            BY_KIND["Pod"].path(namespace, pod, "log"),
            query={"container": ENGINE_CONTAINER, **query},
            as_text=True,
            seconds=_LOG_SECONDS,
        )
        if status in _NO_LOG:
            return ""
        if status != 200:
            raise ReadFailed(f"log of {namespace}/{pod}: {status}: {message_of(answer)}")
        return str(answer)

    async def _read(self, path: str, **call: Any) -> tuple[int, Any]:
        try:
            return await self._api.call("GET", path, **call)
        except NoAnswer as error:
            raise ReadFailed(str(error)) from error

    # writes

    async def apply(self, document: Document) -> Document:
        """Server-side apply one object, and let the cache know what is stored."""
        kind, metadata = document["kind"], document["metadata"]
        path = BY_KIND[kind].path(metadata["namespace"], metadata["name"])
        stored = await self._write(
            document,
            "PATCH",
            path,
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=document,
            content_type="application/apply-patch+yaml",
            verb="apply",
        )
        if kind in self._owned and deployment_of(stored) is not None:
            self._owned[kind].offer(stored)
        return stored

    async def scale(self, document: Document, replicas: int) -> Document:
        """Set the replicas of a Deployment and nothing else; 409 when it is another by now."""
        metadata = document["metadata"]
        seen = {key: metadata[key] for key in ("uid", "resourceVersion")}
        stored = await self._write(
            document,
            "PATCH",
            BY_KIND["Deployment"].path(metadata["namespace"], metadata["name"]),
            query={"fieldManager": FIELD_MANAGER},
            body={"metadata": seen, "spec": {"replicas": replicas}},
            content_type="application/merge-patch+json",
            verb="patch",
        )
        self._owned["Deployment"].offer(stored)
        return stored

    async def delete(self, document: Document) -> None:
        """Delete an object if it is still as it was seen; a vanished one is fine."""
        kind, metadata = document["kind"], document["metadata"]
        path = BY_KIND[kind].path(metadata["namespace"], metadata["name"])
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {key: metadata[key] for key in ("uid", "resourceVersion")},
        }
        try:
            await self._write(document, "DELETE", path, body=options, verb="delete")
        except WriteFailed as error:
            if error.status != 404:
                raise

    async def set_status(self, ref: Ref, resource_version: str, status: Document) -> Document:
        """Replace the status through the subresource; 409 when the object moved meanwhile."""
        document = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {
                "name": ref.name,
                "namespace": ref.namespace,
                "resourceVersion": resource_version,
            },
            "status": status,
        }
        path = BY_KIND[KIND].path(ref.namespace, ref.name, "status")
        stored = await self._write(document, "PUT", path, body=document, verb="update")
        self.deployments.offer(stored)
        return stored

    async def emit(
        self, ref: Ref, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Write an Event about the deployment; a failure is logged and no more."""
        about = self.deployment(ref)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{ref.name}.{uuid.uuid4().hex[:16]}",
                "namespace": ref.namespace,
            },
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "name": ref.name,
                "namespace": ref.namespace,
                "uid": about["metadata"]["uid"] if about else "",
            },
            "type": kind,
            "reason": reason,
            "message": message[:_EVENT_LIMIT],
            "source": {"component": FIELD_MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        path = BY_KIND["Event"].path(ref.namespace)
        try:
            await self._write(document, "POST", path, body=document, verb="create")
        except WriteFailed as error:
            _LOG.warning("event not written: %s", error, extra={"deployment": str(ref)})

    async def _write(self, document: Document, method: str, path: str, **call: Any) -> Document:
        kind, name = document["kind"], document["metadata"].get("name", "")
        if not self._may_write():
            raise WriteFailed(None, "this process does not lead", kind, name)
        try:
            status, answer = await self._api.call(method, path, **call)
        except NoAnswer as error:
            raise WriteFailed(None, str(error), kind, name) from error
        if status >= 400:
            raise WriteFailed(status, message_of(answer), kind, name)
        stored: Document = answer
        return stored

    # what changed

    def _deployment_changed(self, document: Document) -> None:
        self._wake(_ref(document))

    def _pod_changed(self, document: Document) -> None:
        """Keep what a pod holds of GPUs: every pass counts it for all pods of the cluster."""
        metadata = document["metadata"]
        key = (metadata["namespace"], metadata["name"])
        there = self._pods.get(*key)
        held = kept_documents.gpu_pods(there) if there else ()
        if held:
            self._gpu_pods[key] = held
        else:
            self._gpu_pods.pop(key, None)
        self._child_changed(document)

    def _child_changed(self, document: Document) -> None:
        ref = deployment_of(document)
        if ref is not None:
            self._wake(ref)

    def _selecting_changed(self, kind: str, document: Document) -> None:
        """Keep what an object of others selects, by namespace: every review of one asks for it."""
        self._child_changed(document)
        metadata = document["metadata"]
        namespace, key = metadata["namespace"], (kind, metadata["name"])
        there = self._owned[kind].get(namespace, metadata["name"])
        found = selectors.of(there) if there and deployment_of(there) is None else None
        noted = self._selectors.setdefault(namespace, {})
        if found is not None:
            noted[key] = found
        else:
            noted.pop(key, None)
        if not noted:
            del self._selectors[namespace]

    def _node_changed(self, document: Document) -> None:
        """Wake everybody when a node's part in planning changed; a heartbeat is no change."""
        name = document["metadata"]["name"]
        there = self._nodes.get("", name)
        seen = node_classes.offers(there) if there else None
        if self._nodes_seen.get(name) == seen:
            return
        if seen is None:
            del self._nodes_seen[name]
        else:
            self._nodes_seen[name] = seen
        self.nodes_version += 1
        self.wake_all()


def _ref(document: Document) -> Ref:
    return Ref(document["metadata"]["namespace"], document["metadata"]["name"])
