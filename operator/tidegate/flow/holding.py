"""What goes on though the plan is refused, or waits: the rollout, and what gates are told of it.

No pod is made, scaled or taken away here. But a share that is not renewed lapses at the gates, and
a canary that nobody judges goes on failing requests: neither needs a plan.
"""

from tidegate.api.gate_config import GateConfig
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import differs, gate_renewal, model_config, nodes, revision
from tidegate.core.canary import limits
from tidegate.core.canary.state import Phase, State
from tidegate.core.render import gate, render
from tidegate.errors import Refused, Wait
from tidegate.flow import canary, changes, overload_telling, references, slices
from tidegate.flow.changes import Changes
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Clock, Cluster, Document, Evidences, ReadFailed, WriteFailed


async def take_turn(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    cluster: Cluster,
    evidences: Evidences | None,
    clock: Clock,
    memory: Memory,
) -> canary.Turn | None:
    """Go on with the rollout that is stored; None where there is none, or none that can be read.

    Only one of its revisions is followed: a spec that is stable again takes a canary back. A third
    one cannot be rolled out now, so the one that is tried goes on being tried.

    Raises:
        WriteFailed: As `canary.take_turn`.
    """
    try:
        state = canary.stored_state(snapshot, memory)
    except Refused:
        return None
    if state is None:
        return None
    found = slices.there(snapshot)
    replicas = {name: pool.replicas for name, pool in spec.pools.by_name().items()}
    free = nodes.free_gpus(snapshot.nodes_now, snapshot.gpu_pods, None, None)
    return await canary.take_turn(
        snapshot,
        _heard(spec, state),
        await _wanted(snapshot, spec, state, cluster, clock, memory),
        found,
        limits.of(spec, replicas, found),
        free,
        cluster,
        evidences,
        clock,
        memory,
    )


async def _wanted(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    state: State,
    cluster: Cluster,
    clock: Clock,
    memory: Memory,
) -> str:
    """Return the revision to go on towards.

    A promotion is not turned round: no pod of stable could come back now.
    """
    current = state.canary or state.stable
    if state.phase is not Phase.CANARY:
        return current
    named = (spec.model.config_ref, spec.model.weights.index_ref)
    try:
        texts = await references.texts(snapshot.ref, named, cluster, clock, memory)
        asked = revision.of(spec, model_config.of(spec.model, *texts))
    except (ReadFailed, Refused, Wait):
        return current
    return state.stable if asked == state.stable else current


def _heard(spec: LLMDeploymentSpec, state: State) -> LLMDeploymentSpec:
    """Return the spec without a command of another revision than the one that is tried.

    It may have come with the spec that cannot be planned now, and is for then.
    """
    command = spec.rollout.command
    if command is None or command.revision == state.canary:
        return spec
    rollout = spec.rollout.model_copy(update={"command": None})
    return spec.model_copy(update={"rollout": rollout})


async def tell_gates(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    turn: canary.Turn | None,
    cluster: Cluster,
    memory: Memory,
) -> bool:
    """Tell gates the shares and weights that hold now; return whether they have them.

    Raises:
        WriteFailed: Something is not as it was read (409), so what is to be told may not hold.
    """
    if not spec.gate.enabled:
        return True
    shed, shift = overload_telling.shares(snapshot, spec, cluster, memory.overload)
    found = snapshot.gate_config
    before = gate_renewal.read(found) if found is not None else None
    if found is None or before is None:
        return shed is None and shift is None
    after = gate_renewal.shared(before, shed, shift)
    if turn is not None:
        ready, serves = slices.ready_counts(snapshot), slices.serves_of(snapshot)
        after = gate_renewal.weighted(after, ready, turn.shares, serves)
    if after == before:
        return True
    try:
        await changes.check_resource_is_as_seen(snapshot, cluster)
        news = Changes(update=((_config_map(snapshot, after), found),))
        await changes.write(snapshot, news, cluster, memory)
    except ReadFailed:
        return False
    except WriteFailed as error:
        if error.has_moved:
            raise
        return False
    return True


def _config_map(snapshot: Snapshot, config: GateConfig) -> Document:
    owner = render.Owner(snapshot.ref.namespace, snapshot.ref.name, snapshot.uid)
    return differs.stamp(render.owned(owner, gate.config_map(config)))
