"""From what is wanted and what is there to the few writes that make the difference."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.api.llmdeployment import KIND
from tidegate.api.reasons import Reason
from tidegate.core import differs
from tidegate.core.rollout.slices import Decision
from tidegate.errors import Refused, Wait
from tidegate.flow import canary, gather, slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory, key_of
from tidegate.flow.ports import Cluster, Document, WriteFailed

_GARBAGE_SECONDS = 5.0


@dataclass(frozen=True)
class Changes:
    """The writes of a pass, in the order in which they are done.

    What takes pods away comes before what adds some; what is no longer wanted goes last.
    """

    create: tuple[Document, ...] = ()
    scale: tuple[tuple[Document, int], ...] = ()
    update: tuple[tuple[Document, Document], ...] = ()
    delete: tuple[Document, ...] = ()

    def losing_pods(self) -> list[Document]:
        """Return the slices that are asked for fewer pods."""
        targets = [
            *self.scale,
            *(
                (found, wanted["spec"]["replicas"])
                for wanted, found in self.update
                if found["kind"] == "Deployment" and not gather.is_gate(found)
            ),
        ]
        return [found for found, replicas in targets if replicas < found["spec"].get("replicas", 1)]

    def makes_pods(self) -> bool:
        """Say whether pods of a new shape are made: those of a new slice, or of another gate."""
        gates = (wanted for wanted, _ in self.update if gather.is_gate(wanted))
        return any(document["kind"] == "Deployment" for document in (*self.create, *gates))

    def __bool__(self) -> bool:
        """Say whether there is anything to write."""
        return bool(self.create or self.scale or self.update or self.delete)


def find(snapshot: Snapshot, rendered: Sequence[Document], decision: Decision) -> Changes:
    """Compare what is wanted with what is there.

    Raises:
        Refused: An object with the deployment's label and one of its names belongs to another.
        Wait: It belongs to a former deployment of this name and is about to be deleted.
    """
    live = {key_of(found): found for found in snapshot.objects}
    wanted = {key_of(document): differs.stamp(document) for document in rendered}
    for found in snapshot.foreign:
        if key_of(found) in wanted:
            raise conflict(snapshot, found)
    create = [
        document for key, document in wanted.items() if key not in live and _has_pods(document)
    ]
    update = [
        (document, live[key])
        for key, document in wanted.items()
        if key in live and differs.differs(document, live[key])
    ]
    scale = [
        (found, replicas)
        for key, found in live.items()
        if key[0] == "Deployment" and key not in wanted and not gather.is_gate(found)
        if (replicas := decision.replicas.get(key[2], 0)) != found["spec"].get("replicas")
    ]
    return Changes(
        tuple(create),
        tuple(scale),
        tuple(sorted(update, key=_adds_pods)),
        tuple(_unwanted(snapshot, live, wanted, decision)),
    )


def conflict(snapshot: Snapshot, found: Document) -> Refused | Wait:
    """Name the owner of an object that is in the way; it is never taken over."""
    kind, _, name = key_of(found)
    owners = found["metadata"].get("ownerReferences") or ()
    owner = next((entry for entry in owners if entry.get("controller")), None)
    if owner and (owner["kind"], owner["name"]) == (KIND, snapshot.ref.name):
        return Wait(
            Reason.CONFLICT,
            f"the {kind} {name} is of a former deployment of this name, and not deleted yet",
            _GARBAGE_SECONDS,
        )
    whose = f"{owner['kind']} {owner['name']}" if owner else "nobody"
    return Refused(
        Reason.CONFLICT,
        f"the {kind} {name} exists already and belongs to {whose}; it is left alone and nothing is "
        "written: rename the deployment, or remove that object",
    )


async def check_resource_is_as_seen(snapshot: Snapshot, cluster: Cluster) -> None:
    """See that the resource and its rollout are still as they were read: a cache may be behind.

    Raises:
        WriteFailed: They are not (409).
    """
    ref, seen = snapshot.ref, snapshot.document["metadata"]
    found = await cluster.get(KIND, ref.namespace, ref.name)
    now = found["metadata"] if found else {}
    same = all(now.get(key) == seen.get(key) for key in ("uid", "generation"))
    same = same and canary.told(found) == canary.told(snapshot.document)
    if not same or "deletionTimestamp" in now:
        raise WriteFailed(409, "it changed since it was read", KIND, ref.name)


async def check_names_are_free(snapshot: Snapshot, changes: Changes, cluster: Cluster) -> None:
    """See that what is to be created is not there: apply would take it over.

    Raises:
        Refused: It belongs to somebody else.
        WriteFailed: It is ours, and the caches do not show it yet (409).
    """
    for document in changes.create:
        kind, namespace, name = key_of(document)
        found = await cluster.get(kind, namespace, name)
        if found is None:
            continue
        if gather.owner_uid(found) == snapshot.uid:
            raise WriteFailed(409, "it exists already", kind, name)
        raise conflict(snapshot, {"kind": kind, **found})


async def check_pods_are_as_seen(snapshot: Snapshot, changes: Changes, cluster: Cluster) -> None:
    """See that a Deployment that loses pods has no more ready ones than the caches show.

    The rollout takes pods that are not ready first, and the cache of pods may be behind.

    Raises:
        WriteFailed: It has more: what was decided rests on the past (409).
    """
    seen = Counter(map(slices.slice_of, slices.ready_pods(snapshot.pods)))
    for found in changes.losing_pods():
        kind, namespace, name = key_of(found)
        now = await cluster.get(kind, namespace, name)
        ready = ((now or {}).get("status") or {}).get("readyReplicas", 0)
        if ready > seen[slices.slice_of(found)]:
            raise WriteFailed(409, f"{ready} of its pods are ready", kind, name)


async def write(snapshot: Snapshot, changes: Changes, cluster: Cluster, memory: Memory) -> None:
    """Do the writes; every one is on the very object that was seen."""
    for found, replicas in changes.scale:
        memory.wrote(snapshot.ref, await cluster.scale(found, replicas))
    for document, found in changes.update:
        metadata = {
            **document["metadata"],
            "uid": found["metadata"]["uid"],
            "resourceVersion": found["metadata"]["resourceVersion"],
        }
        memory.wrote(snapshot.ref, await cluster.apply({**document, "metadata": metadata}))
    for document in changes.create:
        memory.wrote(snapshot.ref, await cluster.apply(document))
    for found in changes.delete:
        await cluster.delete(found)
        memory.written.get(snapshot.ref, {}).pop(key_of(found), None)


def _has_pods(document: Document) -> bool:
    """A Deployment is made with its first pod; all else at once."""
    return document["kind"] != "Deployment" or bool(document["spec"]["replicas"])


def _adds_pods(pair: tuple[Document, Document]) -> int:
    document, found = pair
    if document["kind"] != "Deployment":
        return -1_000_000  # what pods need comes first
    added: int = document["spec"]["replicas"] - found["spec"].get("replicas", 0)
    return added


def _unwanted(
    snapshot: Snapshot,
    live: dict[tuple[str, str, str], Document],
    wanted: dict[tuple[str, str, str], Document],
    decision: Decision,
) -> list[Document]:
    """Return empty old slices, the objects of a pool without any slice left, and of no gate."""
    done = [
        found for key, found in live.items() if key[0] == "Deployment" and key[2] in decision.delete
    ]
    unwanted = {
        key: found
        for key, found in live.items()
        if key not in wanted and not gather.is_history(found)
    }
    gates = list(filter(gather.is_gate, unwanted.values()))
    kept = {slices.pool_of(found) for found in snapshot.slices if found not in done}
    pools = [
        found
        for key, found in unwanted.items()
        if key[0] != "Deployment" and slices.pool_of(found) not in kept and found not in gates
    ]
    return done + gates + pools
