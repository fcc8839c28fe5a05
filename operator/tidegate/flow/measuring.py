"""What engines tell of their memory: asked for once at each start, held against the plan, kept.

Each slice has one ready pod asked: its metrics and the start of its log. What is learnt goes to one
ConfigMap in the namespace, which belongs to no deployment: it serves the next one. A measurement is
never worth a failed pass: what cannot be asked or kept now is tried again later.
"""

from collections.abc import Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names
from tidegate.core.measure import drift, learn, store
from tidegate.core.measure.basis import SliceKey
from tidegate.core.measure.drift import Drift
from tidegate.core.measure.learn import Reading
from tidegate.core.measure.store import Entry
from tidegate.core.plan import Plan
from tidegate.core.slice_plan import SlicePlan
from tidegate.facts import startup_log
from tidegate.flow import keeping, slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Heard, Memory, Start
from tidegate.flow.ports import Clock, Cluster, Document, Engines, ReadFailed

LOG_BYTES = 512 * 1024
_FIRST_WAIT_SECONDS = 15.0
_LONGEST_WAIT_SECONDS = 600.0
_DOUBLINGS = 10
"""At most: by then the longest wait is reached, and a larger power would overflow."""


async def drifts(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    plan: Plan,
    cluster: Cluster,
    engines: Engines,
    clock: Clock,
    memory: Memory,
) -> tuple[Drift, ...]:
    """Hear each slice's engine, keep what is new, and return how far each is off its plan."""
    ready = _ready_by_slice(snapshot)
    before, memory.heard[snapshot.ref] = memory.heard.get(snapshot.ref, {}), {}
    found = []
    for entry in plan.slices:
        key = (entry.pool, plan.revision, names.label_value(entry.node_class.name))
        pod = _chosen(ready.get(key, ()), before.get(key))
        if pod is None:
            continue
        heard = before.get(key)
        if heard is None or heard.start != _start(pod):
            heard = Heard(_start(pod))
        memory.heard[snapshot.ref][key] = heard
        await _hear(pod, heard, cluster, engines, clock)
        if heard.reading is None:
            continue
        learnt = _learnt(entry, heard.reading, pod, spec, clock.now())
        await keeping.keep(snapshot.ref.namespace, learnt, heard, cluster, clock, memory)
        found.append(drift.of(entry, heard.reading))
    told = tuple(each for each in found if each is not None)
    _remember(snapshot, plan.revision, told, memory)
    return told


def _remember(snapshot: Snapshot, revision: str, told: Sequence[Drift], memory: Memory) -> None:
    """Keep how far a revision is off, for the day when it is what a canary is compared with."""
    if not told:
        return
    there = {slices.revision_of(of) for of in snapshot.slices}
    before = memory.kv_drifts.get(snapshot.ref, {})
    kept = {name: percent for name, percent in before.items() if name in there}
    memory.kv_drifts[snapshot.ref] = {**kept, revision: min(drift.percent for drift in told)}


def _ready_by_slice(snapshot: Snapshot) -> dict[SliceKey, list[Document]]:
    found: dict[SliceKey, list[Document]] = {}
    for pod in slices.ready_pods(snapshot.pods):
        found.setdefault(slices.slice_of(pod), []).append(pod)
    return found


def _chosen(ready: Sequence[Document], heard: Heard | None) -> Document | None:
    """Return the pod that was heard already if it still serves, else the first one by name."""
    same = [pod for pod in ready if heard is not None and _start(pod) == heard.start]
    return min(same or ready, key=lambda pod: str(pod["metadata"]["name"]), default=None)


async def _hear(
    pod: Document, heard: Heard, cluster: Cluster, engines: Engines, clock: Clock
) -> None:
    """Ask a pod that was not heard yet; one that did not answer is left alone for a while."""
    if heard.reading is not None or clock.monotonic() < heard.ask_at:
        return
    metadata = pod["metadata"]
    try:
        cache = await engines.cache_config(pod)
        log = await cluster.start_of_log(metadata["namespace"], metadata["name"], LOG_BYTES)
    except ReadFailed:
        doubled = _FIRST_WAIT_SECONDS * 2 ** min(heard.attempts, _DOUBLINGS)
        wait_seconds = min(doubled, _LONGEST_WAIT_SECONDS)
        heard.attempts += 1
        heard.ask_at = clock.monotonic() + wait_seconds
        return
    heard.reading = Reading(cache, startup_log.read(log))


def _learnt(
    entry: SlicePlan, reading: Reading, pod: Document, spec: LLMDeploymentSpec, now: float
) -> Entry | None:
    digest = store.digest_of(_status(pod).get("imageID"))
    if digest is None:
        return None  # which image it is cannot be told, so it can be no other engine's
    return learn.entry(entry, reading, spec.engine.image, digest, spec.model.id, now)


def _start(pod: Document) -> Start:
    return Start(pod["metadata"]["uid"], int(_status(pod).get("restartCount", 0)))


def _status(pod: Document) -> Document:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((s for s in statuses if s.get("name") == names.ENGINE_CONTAINER), {})
