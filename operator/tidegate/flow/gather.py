"""Everything that a pass looks at, read once at its beginning."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core import names, nodes
from tidegate.core.nodes import GpuPod, Node
from tidegate.flow import node_grace
from tidegate.flow.memory import Memory, key_of
from tidegate.flow.ports import Clock, Cluster, Document, Ref, Settings

OWNED_KINDS = (
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "ConfigMap",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
)


@dataclass(frozen=True)
class Snapshot:
    """The world of one pass.

    `objects` are the deployment's own, `foreign` carry its label and belong to somebody else.
    `pods` are those of its slices, `gate_pods` those of its gate: a copy that somebody made with
    its labels is none.
    `nodes` have their class through short absences, `nodes_now` are just as they are. `hold` is
    for how long nothing may be planned yet, `grace` when a node's absence begins to count.
    """

    ref: Ref
    document: Document
    objects: tuple[Document, ...]
    foreign: tuple[Document, ...]
    pods: tuple[Document, ...]
    gate_pods: tuple[Document, ...]
    nodes: tuple[Node, ...]
    nodes_now: tuple[Node, ...]
    gpu_pods: tuple[GpuPod, ...]
    hold: float | None
    grace: float | None

    @property
    def uid(self) -> str:
        """The deployment's own uid."""
        uid: str = self.document["metadata"]["uid"]
        return uid

    @property
    def identity(self) -> tuple[str, int]:
        """The deployment's uid and the generation of its spec: equal ones have the same spec."""
        return self.uid, self.document["metadata"]["generation"]

    @property
    def slices(self) -> list[Document]:
        """The Deployments of its slices."""
        return [found for found in self._deployments() if not is_gate(found)]

    @property
    def gate(self) -> Document | None:
        """The Deployment of its gate."""
        return next(filter(is_gate, self._deployments()), None)

    @property
    def gate_config(self) -> Document | None:
        """The ConfigMap that its gates watch."""
        maps = (found for found in self.objects if found["kind"] == "ConfigMap")
        return next(filter(is_gate, maps), None)

    def _deployments(self) -> list[Document]:
        return [document for document in self.objects if document["kind"] == "Deployment"]


def snapshot(
    ref: Ref,
    document: Document,
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    memory: Memory,
) -> Snapshot:
    """Read the world from the caches."""
    uid, now = document["metadata"]["uid"], clock.monotonic()
    labelled = [found for kind in OWNED_KINDS for found in cluster.owned(kind, ref)]
    mine = tuple(found for found in labelled if owner_uid(found) == uid)
    pods = [pod for pod in cluster.owned("Pod", ref) if _is_of(pod, mine)]
    current = _read(cluster.nodes(), settings, memory)
    steady, grace = node_grace.steady(current, memory, now, settings.class_grace_seconds)
    if memory.begun_at is None:
        memory.begun_at = now
    young = memory.begun_at + settings.class_grace_seconds - now
    return Snapshot(
        ref=ref,
        document=document,
        objects=mine,
        foreign=tuple(found for found in labelled if owner_uid(found) != uid),
        pods=tuple(pod for pod in pods if not is_gate(pod)),
        gate_pods=tuple(filter(is_gate, pods)),
        nodes=tuple(steady),
        nodes_now=tuple(current),
        gpu_pods=tuple(cluster.gpu_pods()),
        hold=young if young > 0 and _misses_class(mine, steady) else None,
        grace=grace,
    )


async def is_behind(snapshot: Snapshot, cluster: Cluster, memory: Memory) -> bool:
    """Say whether the caches lack something that this process wrote itself.

    What the caches do not have at all may have been deleted by somebody: that is asked for.
    """
    cached = {key_of(found) for found in snapshot.objects}
    for key in memory.behind(snapshot.ref, snapshot.objects):
        if key in cached or await cluster.get(*key) is not None:
            return True
        del memory.written[snapshot.ref][key]
    return False


def versions(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """Return what tells the states of the labelled objects from all others that they can have.

    The history is left out: nothing is rendered by it.
    """
    return tuple(
        (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
        for found in (*snapshot.objects, *snapshot.foreign)
        if not is_history(found)
    )


def is_gate(document: Document) -> bool:
    """Say whether an object is one of the gate's, and not of a pool."""
    labels = document["metadata"].get("labels") or {}
    return bool(labels.get(names.COMPONENT) == names.GATE)


def is_history(document: Document) -> bool:
    """Say whether an object is the history of a rollout: it is kept, and never rendered."""
    labels = document["metadata"].get("labels") or {}
    return bool(labels.get(names.COMPONENT) == names.ROLLOUT)


def owner_uid(document: Document) -> str | None:
    """Return the uid of the object's controller, None where it has none."""
    for owner in document["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            uid: str = owner["uid"]
            return uid
    return None


def _is_of(pod: Document, deployments: Sequence[Document]) -> bool:
    """Say whether a pod's controller is a ReplicaSet of one of the Deployments, by its name.

    The Deployment controller names it after the Deployment and a hash, which has no dash.
    """
    made_by = {
        owner["name"].rpartition("-")[0]
        for owner in pod["metadata"].get("ownerReferences") or ()
        if owner.get("controller") and owner["kind"] == "ReplicaSet"
    }
    return any(
        found["kind"] == "Deployment" and found["metadata"]["name"] in made_by
        for found in deployments
    )


def _read(documents: Sequence[Document], settings: Settings, memory: Memory) -> list[Node]:
    """Read the nodes, each once for all passes: a cache replaces documents and changes none."""
    before, memory.read_nodes = memory.read_nodes, {}
    known: dict[int, list[Node]] = {}
    for document, node in before.values():
        known.setdefault(id(document), []).append(node)
    for document in documents:
        for node in known.get(id(document)) or nodes.offers(document, settings.node_classes):
            memory.read_nodes[node.name] = (document, node)
    return [node for _, node in memory.read_nodes.values()]


def _misses_class(objects: Sequence[Document], steady: Sequence[Node]) -> bool:
    """Say whether a slice stands on a class that no node is of.

    A process that has just begun cannot tell a class that is away for a moment from one that left.
    """
    there = {names.label_value(name) for name in nodes.classes(steady)}
    return any(
        found["metadata"].get("labels", {}).get(names.LABEL_NODE_CLASS) not in there
        for found in objects
        if found["kind"] == "Deployment" and not is_gate(found) and found["spec"].get("replicas")
    )
