"""The ConfigMap of looks at canaries: written behind the pass, and never in its way.

Nothing is decided by it. It is written after the status was, at most every half a minute unless a
look decided something; what cannot be written now is with the next look.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from tidegate.api.rollout_history import RolloutLook
from tidegate.core import names
from tidegate.core.canary import history
from tidegate.core.canary.state import Phase, State
from tidegate.core.render import render
from tidegate.core.render.render import Owner
from tidegate.flow import gather
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory, UnkeptLooks
from tidegate.flow.ports import Clock, Cluster, Document, ReadFailed, Ref, WriteFailed

WRITE_SECONDS = 30.0
"""Least time between two writes: each is of up to 64 KiB."""
_REFUSED_SECONDS = 600.0
"""How soon to try again what the API server refuses, or what belongs to somebody else."""
_LONGEST_SECONDS = 5.0
"""For reading and writing: the pass is done, and its next one waits for this."""
_MOVED = (404, 409)


def note(ref: Ref, before: State, look: RolloutLook | None, after: State, memory: Memory) -> None:
    """Remember a look that was made between two states, to be written soon."""
    if look is None:
        return
    unkept = memory.looks.setdefault(ref, UnkeptLooks())
    unkept.looks = (*unkept.looks, look)[-history.MOST_LOOKS :]
    unkept.has_past |= before.looked_at is not None or before.step > 0
    if not before.acts_like(after):
        unkept.write_at = unkept.refused_until


async def keep(
    snapshot: Snapshot, state: State | None, cluster: Cluster, clock: Clock, memory: Memory
) -> tuple[str, ...]:
    """Write what was noted, if it is time; return what should be in the log. It never raises."""
    ref, unkept = snapshot.ref, memory.looks.get(snapshot.ref)
    if unkept is None:
        return ()
    if not unkept.looks:
        if state is None or state.phase is not Phase.CANARY:
            del memory.looks[ref]
        return ()
    if clock.monotonic() < unkept.write_at:
        return ()
    unkept.write_at = clock.monotonic() + WRITE_SECONDS
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            return tuple(await _write(snapshot, unkept, cluster, clock))
    except (ReadFailed, TimeoutError):
        return ()  # no answer: the next look brings it along
    except WriteFailed as error:
        unkept.document = None
        if error.status is None or error.status >= 500 or error.status in _MOVED:
            return ()
        _leave(unkept, clock)
        return (f"the history of the rollout was refused, and it goes on without: {error}",)


async def _write(
    snapshot: Snapshot, unkept: UnkeptLooks, cluster: Cluster, clock: Clock
) -> list[str]:
    name = names.rollout_history_name(snapshot.ref.name)
    before = unkept.document
    if before is None:
        before = await cluster.get("ConfigMap", snapshot.ref.namespace, name)
        if before is not None and not _is_ours(snapshot, before):
            _leave(unkept, clock)
            return [f"the ConfigMap {name} belongs to somebody else: no history is kept"]
    stored = history.decode((before or {}).get("data"))
    notes = list(_losses(name, before, stored, unkept))
    looks = history.adding(stored.looks, unkept.looks)
    unkept.document = await cluster.apply(_document(snapshot, name, before, looks))
    unkept.looks = ()
    return notes


def _losses(
    name: str, before: Document | None, stored: history.Decoded, unkept: UnkeptLooks
) -> Iterator[str]:
    if stored.unreadable:
        yield f"{stored.unreadable} lines of the ConfigMap {name} are no looks, and are left out"
    if before is None and unkept.has_past:
        yield f"the ConfigMap {name} is not there any more: the history begins anew"
    unkept.has_past = True


def _leave(unkept: UnkeptLooks, clock: Clock) -> None:
    unkept.looks = ()
    unkept.write_at = unkept.refused_until = clock.monotonic() + _REFUSED_SECONDS


def _is_ours(snapshot: Snapshot, found: Document) -> bool:
    return gather.owner_uid(found) == snapshot.uid and gather.is_history(found)


def _document(
    snapshot: Snapshot, name: str, before: Document | None, looks: history.Looks
) -> Document:
    ref = snapshot.ref
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": ref.namespace,
        "labels": names.rollout_history_labels(ref.name),
    }
    if before is not None:
        metadata |= {key: before["metadata"][key] for key in ("uid", "resourceVersion")}
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": history.encode(looks),
    }
    return render.owned(Owner(ref.namespace, ref.name, snapshot.uid), document)
