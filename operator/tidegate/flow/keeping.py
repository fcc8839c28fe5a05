"""The ConfigMap of measurements: read when a slice is to be made, written when there is news."""

from typing import Any

from tidegate.core import names
from tidegate.core.measure import measurement, store
from tidegate.core.measure.basis import Basis
from tidegate.core.measure.store import Entry, Store
from tidegate.core.plan import Plan
from tidegate.flow import slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Heard, Kept, Memory
from tidegate.flow.ports import Clock, Cluster, Document, ReadFailed, WriteFailed

_AGAIN_SECONDS = 30.0
_REFUSED_SECONDS = 600.0
"""How soon to try a write again that the API server refused: its policies change, too."""
_MOVED = (404, 409)


def basis(snapshot: Snapshot, memory: Memory) -> Basis:
    """Return what the plan may take as measured: slices keep what they were made with."""
    kept = memory.kept.get(snapshot.ref.namespace)
    return Basis(
        {
            slices.slice_of(found): measurement.decode(
                (found["metadata"].get("annotations") or {}).get(names.ANNOTATION_MEASURED)
            )
            for found in snapshot.slices
        },
        kept.store if kept else Store(),
    )


async def consult(
    snapshot: Snapshot, plan: Plan, based_on: Basis, cluster: Cluster, memory: Memory
) -> bool:
    """Ask for what is stored if a slice is to be made; return whether to plan again.

    Once for each spec: what this process learns itself it knows.

    Raises:
        ReadFailed: The API server gave no answer.
    """
    is_new = any(
        entry.replicas and not based_on.keeps(entry.pool, plan.revision, entry.node_class.name)
        for entry in plan.slices
    )
    if not is_new or memory.consulted.get(snapshot.ref) == snapshot.identity:
        return False
    async with memory.lock(snapshot.ref.namespace):
        found = await _fetch(snapshot.ref.namespace, cluster, memory)
    memory.consulted[snapshot.ref] = snapshot.identity
    return found.store != based_on.store


async def keep(
    namespace: str,
    learnt: Entry | None,
    heard: Heard,
    cluster: Cluster,
    clock: Clock,
    memory: Memory,
) -> None:
    """Write what was learnt if it is news; a failure is tried again later, by the same pass."""
    if heard.is_kept or clock.monotonic() < heard.keep_at:
        return
    heard.keep_at = clock.monotonic() + _AGAIN_SECONDS
    if learnt is None:
        heard.is_kept = True
        return
    try:
        async with memory.lock(namespace):
            await _add(namespace, learnt, cluster, clock, memory)
        heard.is_kept = True
    except ReadFailed:
        return  # no answer: `keep_at` says when to ask again
    except WriteFailed as error:
        memory.kept.pop(namespace, None)
        if error.status in _MOVED:
            heard.keep_at = clock.monotonic()
        elif error.status is not None and error.status < 500:
            heard.keep_at = clock.monotonic() + _REFUSED_SECONDS


async def _add(
    namespace: str, learnt: Entry, cluster: Cluster, clock: Clock, memory: Memory
) -> None:
    """Store an entry if it is news; one at a time in a namespace, for each write replaces all.

    What is not known to be there is asked for: a write without a version checks nothing.
    """
    known = memory.kept.get(namespace)
    if known is None or known.document is None:
        known = await _fetch(namespace, cluster, memory)
    news = known.store.adding(learnt).pruned(clock.now())
    is_news = news.entries.get(learnt.key) != known.store.entries.get(learnt.key)
    if is_news and not known.is_foreign:
        stored = await cluster.apply(_document(namespace, known.document, news))
        memory.kept[namespace] = _kept(stored)


async def _fetch(namespace: str, cluster: Cluster, memory: Memory) -> Kept:
    """Read the ConfigMap; what was heard in its namespace is then looked for in it again."""
    found = await cluster.get("ConfigMap", namespace, names.MEASUREMENTS)
    memory.kept[namespace] = kept = _kept(found) if found else Kept(Store())
    for ref, by_slice in memory.heard.items():
        for heard in by_slice.values() if ref.namespace == namespace else ():
            heard.is_kept = False
    return kept


def _kept(document: Document) -> Kept:
    labels = document["metadata"].get("labels") or {}
    if labels.get(names.MANAGED_BY) != names.FIELD_MANAGER:
        return Kept(Store(), document, is_foreign=True)
    return Kept(store.decode(document.get("data")), document)


def _document(namespace: str, before: Document | None, news: Store) -> Document:
    metadata: dict[str, Any] = {
        "name": names.MEASUREMENTS,
        "namespace": namespace,
        "labels": {names.MANAGED_BY: names.FIELD_MANAGER},
    }
    if before is not None:
        metadata |= {key: before["metadata"][key] for key in ("uid", "resourceVersion")}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": store.encode(news),
    }
