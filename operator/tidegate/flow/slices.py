"""From Deployments and pods to the slices that the rollout decides on."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tidegate.api.gate_config import Serves
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import causes, gate_config, landing, names, serves
from tidegate.core.gate_config import Around
from tidegate.core.nodes import Node, gpus_of_pod, name_of_offer
from tidegate.core.plan import Plan
from tidegate.core.rollout.slices import Decision, Slice
from tidegate.core.status import conditions
from tidegate.flow.gather import Snapshot
from tidegate.flow.ports import Document

_AWAY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ENDED = ("Succeeded", "Failed")
SliceKey = tuple[str, str, str]
"""Pool, revision and node class, as the labels have them."""


def find(snapshot: Snapshot, spec: LLMDeploymentSpec, plan: Plan) -> list[Slice]:
    """Return the slices that the plan wants and those that are there."""
    live = {found["metadata"]["name"]: found for found in snapshot.slices}
    pods = _by_slice(snapshot.pods)
    wanted: dict[str, Slice] = {}
    for entry in plan.slices:
        class_name = entry.node_class.name
        name = names.slice_name(snapshot.ref.name, entry.pool, plan.revision, class_name)
        found = landing.find(entry.pool, spec.pools.by_name()[entry.pool], snapshot.nodes)
        key = (entry.pool, plan.revision, names.label_value(class_name))
        wanted[name] = _slice(
            name,
            key,
            gpus=entry.gpus,
            target=entry.replicas,
            document=live.get(name),
            pods=pods.get(key, ()),
            nodes=found.by_class[class_name],
        )
    return [*wanted.values(), *(of for of in there(snapshot) if of.name not in wanted)]


def there(snapshot: Snapshot) -> list[Slice]:
    """Return the slices that are there, as one without a plan sees them: with no target."""
    pods, classes = _by_slice(snapshot.pods), _by_class(snapshot.nodes)
    return [
        _slice(
            found["metadata"]["name"],
            key,
            gpus=_gpus(found),
            document=found,
            pods=pods.get(key, ()),
            nodes=classes.get(key[2], ()),
        )
        for found in snapshot.slices
        if (key := slice_of(found))
    ]


def _by_class(nodes: Sequence[Node]) -> Mapping[str, list[Node]]:
    """Return nodes by class, as labels have it: where pods of a former spec may land."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if node.node_class is not None:
            found.setdefault(names.label_value(node.node_class.name), []).append(node)
    return found


def scale(deployment: str, plan: Plan, decision: Decision) -> dict[tuple[str, str], int]:
    """Return the replicas of the plan's own slices, as rendering wants them."""
    return {
        (entry.pool, entry.node_class.name): decision.replicas[
            names.slice_name(deployment, entry.pool, plan.revision, entry.node_class.name)
        ]
        for entry in plan.slices
    }


def around(snapshot: Snapshot, plan: Plan, decision: Decision, shares: Mapping[str, int]) -> Around:
    """Return what gates are to know beside the plan.

    Slices of before that still have pods, and the share of the requests that each revision gets.
    """
    own = {
        names.slice_name(snapshot.ref.name, entry.pool, plan.revision, entry.node_class.name)
        for entry in plan.slices
    }
    others = [
        _annotations(found)
        for found in snapshot.slices
        if found["metadata"]["name"] not in own.union(decision.delete)
    ]
    _, generation = snapshot.identity
    return Around(
        generation,
        gate_config.of_others(others),
        ready_counts(snapshot),
        shares=dict(shares),
        serves=serves_of(snapshot),
    )


def ready_counts(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Return the number of ready pods by pool and revision."""
    return dict(Counter(slice_of(pod)[:2] for pod in ready_pods(snapshot.pods)))


def serves_of(snapshot: Snapshot) -> dict[str, Serves]:
    """Return what each revision's slices say that it answers to."""
    return serves.by_revision((revision_of(one), _annotations(one)) for one in snapshot.slices)


def _annotations(found: Document) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}


def previous_replicas(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Return how replicas are divided now: as the last plan says, else as they are asked for."""
    entries = (snapshot.document.get("status") or {}).get("plan") or ()
    if entries:
        return {(e["pool"], e["nodeClass"]): e["replicas"] for e in entries}
    asked: Counter[tuple[str, str]] = Counter()
    for found in snapshot.slices:
        pool, _, node_class = slice_of(found)
        asked[pool, node_class] += found["spec"].get("replicas", 0)
    return dict(asked)


def ready_pods(pods: Sequence[Document]) -> list[Document]:
    """Return the pods that serve and are not about to leave."""
    return [pod for pod in pods if causes.is_ready(pod) and not causes.is_leaving(pod)]


def last_progress(snapshot: Snapshot, revision: str) -> float | None:
    """Return when a slice of a revision was last made or one of its pods became ready."""
    times = [
        found["metadata"].get("creationTimestamp")
        for found in snapshot.slices
        if slice_of(found)[1] == revision
    ]
    for pod in ready_pods(snapshot.pods):
        if slice_of(pod)[1] == revision:
            times += [
                condition.get("lastTransitionTime")
                for condition in pod["status"]["conditions"]
                if condition["type"] == "Ready"
            ]
    return max((at for text in times if (at := conditions.parse_time(text))), default=None)


def revision_of(document: Document) -> str:
    """Return the revision that an object of a slice is of."""
    return slice_of(document)[1]


def pool_of(document: Document) -> str:
    """Return the pool that an object is of."""
    return slice_of(document)[0]


def _slice(
    name: str,
    key: SliceKey,
    *,
    gpus: int,
    document: Document | None,
    pods: Sequence[Document],
    target: int = 0,
    nodes: Sequence[Node] = (),
) -> Slice:
    there = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    live = [pod for pod in there if not causes.is_leaving(pod)]
    ending = [node for pod in there if causes.is_leaving(pod) and (node := _node_of(pod))]
    return Slice(
        name=name,
        pool=key[0],
        revision=key[1],
        gpus=gpus,
        target=target,
        exists=document is not None,
        asked=document["spec"].get("replicas", 1) if document else 0,
        ready=len(ready_pods(live)),
        bound=sum(_node_of(pod) is not None for pod in live),
        live=len(live),
        ending=len(there) - len(live),
        refused=sum(_is_refused(pod) for pod in live),
        nodes=frozenset(node.name for node in nodes if not _is_away(node)),
        holding=frozenset(node for pod in live if (node := _node_of(pod))),
        ending_on=Counter(ending),
        node_class=key[2],
    )


def _by_slice(pods: Sequence[Document]) -> Mapping[SliceKey, list[Document]]:
    found: dict[SliceKey, list[Document]] = {}
    for pod in pods:
        found.setdefault(slice_of(pod), []).append(pod)
    return found


def slice_of(document: Document) -> SliceKey:
    """Return pool, revision and class of a slice's Deployment or pod."""
    labels = document["metadata"].get("labels") or {}
    return (
        labels.get(names.LABEL_POOL, ""),
        labels.get(names.LABEL_REVISION, ""),
        labels.get(names.LABEL_NODE_CLASS, ""),
    )


def _gpus(deployment: Document) -> int:
    return sum(gpus_of_pod(deployment["spec"]["template"]["spec"]).values())


def _node_of(pod: Document) -> str | None:
    """Return where a pod holds GPUs: the node's offer of the resource that the pod asks for."""
    spec = pod.get("spec") or {}
    resource = next(iter(gpus_of_pod(spec)), names.GPU_RESOURCE)
    return name_of_offer(spec["nodeName"], resource) if spec.get("nodeName") else None


def _is_refused(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return _node_of(pod) is None and any(
        entry.get("type") == "PodScheduled" and entry.get("reason") == "Unschedulable"
        for entry in conditions
    )


def _is_away(node: Node) -> bool:
    return any(taint.get("key") in _AWAY_TAINTS for taint in node.taints)
