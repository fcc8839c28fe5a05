"""The rollout's part of a pass: its state is read, goes on, and is stored before anything follows.

Whatever is written after a state was stored follows from that state, so a pass that ends anywhere
is taken up by the next one, of this process or another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.canary import (
    baseline,
    pods,
    policy,
    record,
    shares,
    steps,
    stored,
    targets,
    tell,
    timing,
)
from tidegate.core.canary import history as looks
from tidegate.core.canary.advance import advance
from tidegate.core.canary.rollout import Rollout
from tidegate.core.canary.seen import PoolSize, Seen
from tidegate.core.canary.state import Phase, State
from tidegate.core.rollout.slices import PoolLimits, Slice
from tidegate.flow import failing, history, looking, slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import KeptRollout, Memory, version_of
from tidegate.flow.ports import (
    Clock,
    Cluster,
    Document,
    Evidences,
    WriteFailed,
)


@dataclass(frozen=True)
class Turn:
    """The rollout in one pass: the state that holds, and what it was decided by.

    `document` is the deployment as it is now that the state is stored.
    """

    state: State
    seen: Seen
    document: Document

    @property
    def shares(self) -> Mapping[str, int]:
        """The share of the requests of each revision; empty where ready pods decide."""
        is_plain = not self.state.failed and not self.state.leaving
        if self.state.phase is Phase.PROMOTING and is_plain:
            return {}
        return shares.of(self.state, self.seen)

    @property
    def again_seconds(self) -> float | None:
        """How soon the clock alone may change something."""
        return timing.again_seconds(self.state, self.seen)

    @property
    def is_stepwise(self) -> bool:
        """Say whether steps decide on it, and not only pods that come and go."""
        return self.state.phase not in (Phase.SETTLED, Phase.PROMOTING)

    @property
    def strategy(self) -> Literal["RollingUpdate", "Recreate"]:
        """How pods are replaced where it is not a matter of steps."""
        is_recreated = not self.is_stepwise and self.seen.policy.strategy == "Recreate"
        return "Recreate" if is_recreated else "RollingUpdate"

    @property
    def leading(self) -> str:
        """The revision that pods are moved towards."""
        if self.state.phase is Phase.CANARY and self.state.canary:
            return self.state.canary
        return self.state.winner

    @property
    def lasting(self) -> frozenset[str]:
        """The revisions that may get pods again on every class where they had some."""
        is_open = self.state.phase is not Phase.SETTLED
        return frozenset({self.state.stable}) if is_open else frozenset()

    @property
    def told(self) -> Rollout:
        """What the status is to tell of it."""
        policy = self.seen.policy
        return Rollout(self.state, policy, record.to_status(self.state, policy))

    def targets(self, found: Sequence[Slice]) -> list[Slice]:
        """Return the slices with the pods that the rollout wants of them now.

        Those of a baseline that is to come are among them.
        """
        wanted = targets.of(self.state, self.seen)
        name = self.document["metadata"]["name"]
        every = [*found, *baseline.missing(name, found, self.state)]
        return pods.with_targets(every, wanted, self.seen.wanted, self.seen.pools)


def told(document: Document | None) -> object:
    """Return the state that a deployment's status tells, as it stands there."""
    return ((document or {}).get("status") or {}).get("rollout")


async def take_turn(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    revision: str,
    found: Sequence[Slice],
    pools: Mapping[str, PoolLimits],
    free_gpus: Mapping[str, int],
    cluster: Cluster,
    evidences: Evidences | None,
    clock: Clock,
    memory: Memory,
) -> Turn:
    """Go on with the rollout as far as it goes now.

    Raises:
        Refused: This version cannot read the state.
        WriteFailed: The state could not be stored, or the caches do not show it yet (409).
    """
    before = stored_state(snapshot, memory)
    wishes = policy.of(spec, can_judge=evidences is not None)

    def sizes(step: int) -> Mapping[str, PoolSize]:
        weight = wishes.at(step).weight
        return pods.sizes(found, pools, free_gpus, revision, weight, wishes.sides)

    seen = Seen(
        now=float(int(clock.now())),
        wanted=revision,
        policy=wishes,
        pools=sizes(before.step if before else 0),
        pods=pods.by_revision(found),
    )
    seen = await _with_trouble(before, seen, snapshot, found, cluster, clock, memory)
    state = record.rounded(advance(before, seen), seen.policy)
    looking.note_ends(snapshot, state, seen.now, memory)
    if steps.wants_look(state, seen):
        seen = replace(
            seen, look=await looking.look(snapshot.ref, spec, state, seen, evidences, memory)
        )
        looked, state = state, record.rounded(advance(state, seen), seen.policy)
        history.note(snapshot.ref, looked, looks.look(looked, seen), state, memory)
    document = await _store(before, state, seen, snapshot, cluster, memory)
    said = tell.transition(before, state, seen.policy)
    if said is not None:
        await cluster.emit(
            snapshot.ref, "Warning" if said.is_warning else "Normal", said.reason, said.message
        )
    return Turn(state, replace(seen, pools=sizes(state.step)), document)


def stored_state(snapshot: Snapshot, memory: Memory) -> State | None:
    """Return the state as it is stored, None where none is.

    Raises:
        Refused: This version cannot read it.
        WriteFailed: This process has stored a newer one than the caches show (409).
    """
    kept, version = memory.rollouts.get(snapshot.ref), version_of(snapshot.document)
    if kept is not None and kept.version == version:
        return kept.state
    if kept is not None and (version or 0) < (kept.version or 0):
        name = snapshot.ref.name
        raise WriteFailed(409, "the caches do not show our own state yet", "LLMDeployment", name)
    return stored.require(snapshot.document)


async def _with_trouble(
    state: State | None,
    seen: Seen,
    snapshot: Snapshot,
    found: Sequence[Slice],
    cluster: Cluster,
    clock: Clock,
    memory: Memory,
) -> Seen:
    """Say why pods of the canary, or else of its baseline, are not there: it may soon matter."""
    if state is None or state.phase is not Phase.CANARY or state.canary != seen.wanted:
        return seen
    revision, wanted = state.canary, targets.of_step(state, seen)
    if seen.of(revision).has(wanted) and state.baseline is not None:
        revision, wanted = state.baseline, targets.of_baseline(state, seen)
    theirs = seen.of(revision)
    if theirs.has(wanted):
        return seen
    cause = await failing.worst(
        snapshot.ref,
        [pod for pod in snapshot.pods if slices.revision_of(pod) == revision],
        [of for of in snapshot.slices if slices.revision_of(of) == revision],
        cluster,
        clock,
        memory,
    )
    lacks = any(theirs.asked.get(pool, 0) < count for pool, count in wanted.items())
    refused = any(of.refused for of in found if of.revision == revision)
    return replace(
        seen,
        trouble=f"{cause.reason}: {cause.message}" if cause else "",
        is_blocked=lacks or refused,
    )


async def _store(
    before: State | None,
    state: State,
    seen: Seen,
    snapshot: Snapshot,
    cluster: Cluster,
    memory: Memory,
) -> Document:
    """Store the state where something will be done by it; return the deployment as it then is.

    The first state of a deployment without pods follows from nothing but its spec, and a look that
    led to no decision can be made again: the pass's own status has them.
    """
    document = snapshot.document
    if before is None and state.phase is Phase.SETTLED:
        return document
    if before is not None and before.acts_like(state):
        return document
    status = {
        **(document.get("status") or {}),
        "rollout": record.to_status(state, seen.policy).wire(),
    }
    version = document["metadata"]["resourceVersion"]
    after = await cluster.set_status(snapshot.ref, version, status)
    memory.rollouts[snapshot.ref] = KeptRollout(version_of(after), state)
    return {**document, **after}
