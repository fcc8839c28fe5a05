"""The pass: make the cluster as the resource says, and say in its status how that stands.

Level-based: everything is read anew, whatever the reason to look. Nothing is written that is there
already, and nothing is written on the word of a cache alone: before its first write a pass asks the
API server whether the resource is still the one that was read.
"""

from dataclasses import dataclass, replace

from tidegate.api import llmdeployment
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import checks, model_config, nodes, plan, status
from tidegate.core.admission import held
from tidegate.core.canary import limits
from tidegate.core.canary.rollout import Rollout
from tidegate.core.checks import Verdict
from tidegate.core.measure.basis import Basis
from tidegate.core.measure.drift import Drift
from tidegate.core.plan import Plan
from tidegate.core.rollout import decide
from tidegate.core.rollout.slices import Decision, State
from tidegate.core.status import Seen, Trouble
from tidegate.errors import Invalid, Refused, Wait
from tidegate.flow import (
    canary,
    changes,
    gates,
    gather,
    history,
    holding,
    keeping,
    measuring,
    overload_telling,
    references,
    rendering,
    seeing,
    slices,
    telling,
)
from tidegate.flow.gates import Looked
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory, Planned
from tidegate.flow.outcome import FAILED, GONE, STALE, Outcome, Result
from tidegate.flow.ports import (
    Clock,
    Cluster,
    Engines,
    Evidences,
    Gates,
    ReadFailed,
    Ref,
    Settings,
    WriteFailed,
)

__all__ = ["Memory", "Outcome", "reconcile"]

_MOVING_SECONDS = 10.0
"""How soon to look again while pods come and go; their events come first, as a rule."""
_REFUSED_SECONDS = 60.0
"""How soon to look again at what only a new spec should change: nodes and policies change, too."""
_UNTOLD_SECONDS = 5.0
"""How soon to try again to tell gates what holds: their shares lapse."""
_REFUSALS = (400, 403, 405, 413, 415, 422)


async def reconcile(
    ref: Ref,
    cluster: Cluster,
    engines: Engines,
    gates: Gates,
    clock: Clock,
    settings: Settings,
    memory: Memory,
    evidences: Evidences | None = None,
) -> Outcome:
    """Do one pass over a deployment; without `evidences` nothing can judge a canary."""
    document = cluster.deployment(ref)
    if document is None or "deletionTimestamp" in document["metadata"]:
        memory.forget(ref)
        return GONE
    snapshot = gather.snapshot(ref, document, cluster, clock, settings, memory)
    work = Work(snapshot, cluster, engines, gates, clock, settings, memory, evidences)
    try:
        if await gather.is_behind(snapshot, cluster, memory):
            return replace(STALE, why="the caches do not show our own last write yet")
        if snapshot.hold is not None:
            await work.hold_on()
            return Outcome("waiting", snapshot.hold, "a node class may only be away for a moment")
        await work.carry_out()
        seen = await work.seen()
        if not work.is_followed(seen):
            await telling.tell(ref, work.snapshot.document, seen, cluster, clock, memory)
        state = work.turn.state if work.turn else None
        notes = await history.keep(work.snapshot, state, cluster, clock, memory)
    except ReadFailed as error:
        return replace(FAILED, why=str(error))
    except WriteFailed as error:
        return replace(STALE if error.has_moved else FAILED, why=str(error))
    return replace(work.outcome(), notes=notes)


@dataclass
class Work:
    """A pass under way: what it has come to so far."""

    snapshot: Snapshot
    cluster: Cluster
    engines: Engines
    gates: Gates
    clock: Clock
    settings: Settings
    memory: Memory
    evidences: Evidences | None = None
    spec: LLMDeploymentSpec | None = None
    plan: Plan | None = None
    turn: canary.Turn | None = None
    decision: Decision | None = None
    verdicts: tuple[Verdict, ...] = ()
    trouble: Trouble | None = None
    gates_are_told: bool = True
    wait_seconds: float = _REFUSED_SECONDS
    looked: Looked | None = None

    async def carry_out(self) -> None:
        """Plan, decide and write; what stands in the way becomes the pass's trouble.

        Raises:
            WriteFailed: A write failed in a way that passes.
            ReadFailed: So did a read.
        """
        try:
            await self._carry_out()
            return
        except Invalid as error:
            self.trouble = Trouble(Reason.INVALID_SPEC, str(error))
        except Refused as error:
            self.trouble = Trouble(error.reason, str(error))
        except Wait as error:
            self.trouble = Trouble(error.reason, str(error), waits=True)
            self.wait_seconds = error.delay_seconds
        except ReadFailed:
            await self.hold_on()
            raise
        except WriteFailed as error:
            if error.has_moved:
                raise
            if error.status not in _REFUSALS:
                await self.hold_on()
                raise
            self.trouble = Trouble(
                Reason.APPLY_REFUSED,
                f"the API server refused the {error.kind} {error.name}: {error.message}",
            )
        await self.hold_on()

    async def _carry_out(self) -> None:
        spec = self.spec = self._read()
        held.require(spec, self.settings.admission)
        planned = self.plan = await self._plan(spec)
        decision = self.decision = await self._decide(spec, planned)
        await self._write(spec, planned, decision)

    def _read(self) -> LLMDeploymentSpec:
        held.require_readable(self.snapshot.document)
        return llmdeployment.parse(self.snapshot.document).spec

    async def hold_on(self) -> None:
        """Do what needs no plan: go on with the rollout, and tell gates what holds now.

        Raises:
            WriteFailed: The resource or its rollout is not as it was read.
        """
        try:
            spec = self.spec = self.spec or self._read()
        except (Invalid, Refused):
            return
        if self.turn is None:
            turn = self.turn = await holding.take_turn(
                self.snapshot, spec, self.cluster, self.evidences, self.clock, self.memory
            )
            if turn is not None:
                self.snapshot = replace(self.snapshot, document=turn.document)
        self.gates_are_told = await holding.tell_gates(
            self.snapshot, spec, self.turn, self.cluster, self.memory
        )
        if not self.gates_are_told:
            self.wait_seconds = min(self.wait_seconds, _UNTOLD_SECONDS)

    async def _plan(self, spec: LLMDeploymentSpec) -> Plan:
        """Plan and check; with what is stored of measurements where a slice is to be made."""
        snapshot, ref = self.snapshot, self.snapshot.ref
        wanted = (spec.model.config_ref, spec.model.weights.index_ref)
        texts = await references.texts(ref, wanted, self.cluster, self.clock, self.memory)
        based_on = keeping.basis(snapshot, self.memory)
        known = self._planned(spec, texts, based_on)
        if await keeping.consult(snapshot, known.plan, based_on, self.cluster, self.memory):
            known = self._planned(spec, texts, keeping.basis(snapshot, self.memory))
        self.verdicts = known.verdicts
        refusal = checks.refusal_of(known.verdicts)
        if refusal is not None:
            raise refusal
        return known.plan

    def _planned(
        self, spec: LLMDeploymentSpec, texts: tuple[str | None, ...], based_on: Basis
    ) -> Planned:
        """Plan and check; neither is done again while all that it depends on is the same."""
        snapshot, ref = self.snapshot, self.snapshot.ref
        free = nodes.free_gpus(snapshot.nodes, snapshot.gpu_pods, ref.namespace, ref.name)
        previous = slices.previous_replicas(snapshot)
        inputs = (snapshot.identity, texts, snapshot.nodes, free, previous, based_on)
        known = self.memory.plans.get(ref)
        if known is None or known.inputs != inputs:
            config = model_config.of(spec.model, *texts)
            made = plan.make(spec, config, snapshot.nodes, free, previous, based_on)
            known = Planned(inputs, made, tuple(checks.check(spec, made, config, snapshot.nodes)))
            self.memory.plans[ref] = known
        return known

    async def _decide(self, spec: LLMDeploymentSpec, planned: Plan) -> Decision:
        """Go on with the rollout, and decide on the pods that it wants."""
        found = slices.find(self.snapshot, spec, planned)
        replicas = {
            name: sum(entry.replicas for entry in planned.of_pool(name))
            for name in spec.pools.by_name()
        }
        pools = limits.of(spec, replicas, found)
        free = nodes.free_gpus(self.snapshot.nodes_now, self.snapshot.gpu_pods, None, None)
        turn = self.turn = await canary.take_turn(
            self.snapshot,
            spec,
            planned.revision,
            found,
            pools,
            free,
            self.cluster,
            self.evidences,
            self.clock,
            self.memory,
        )
        self.snapshot = replace(self.snapshot, document=turn.document)
        return decide.decide(
            turn.targets(found), pools, free, turn.strategy, turn.leading, turn.lasting
        )

    async def _write(self, spec: LLMDeploymentSpec, planned: Plan, decision: Decision) -> None:
        """Write what differs; a pass at rest ends before its first call."""
        snapshot, settings = self.snapshot, self.settings
        shares = self.turn.shares if self.turn else {}
        baseline = self.turn.state.baseline if self.turn else None
        around = slices.around(snapshot, planned, decision, shares)
        shed, shift = overload_telling.shares(snapshot, spec, self.cluster, self.memory.overload)
        around = replace(around, shed=shed, shift=shift)
        inputs = (snapshot.identity, planned, decision, around, gather.versions(snapshot))
        if self.memory.unchanging.get(snapshot.ref) == inputs:
            return
        rendered, waiting = rendering.render_all(
            snapshot, spec, planned, decision, around, settings, baseline
        )
        self.memory.waiting[snapshot.ref] = waiting
        held.require_restricted(rendered)
        wanted = changes.find(snapshot, rendered, decision)
        if not wanted:
            self.memory.unchanging[snapshot.ref] = inputs
            return
        await changes.check_resource_is_as_seen(snapshot, self.cluster)
        await changes.check_names_are_free(snapshot, wanted, self.cluster)
        await changes.check_pods_are_as_seen(snapshot, wanted, self.cluster)
        if wanted.makes_pods():
            await references.check(snapshot.ref, spec, self.cluster)
        await changes.write(snapshot, wanted, self.cluster, self.memory)

    async def seen(self) -> Seen:
        """Return what the status is to tell."""
        seen = await seeing.seen(
            self.snapshot,
            self.spec,
            self.plan,
            self.decision,
            self.verdicts,
            self.trouble,
            self.cluster,
            self.clock,
            self.memory,
        )
        memory = self.memory
        limit = self.settings.drift_limit_percent
        looked = self.looked = await gates.look(
            self.snapshot, self.spec, self.gates, self.clock, self.memory
        )
        return replace(
            seen,
            drifts=await self._drifts(),
            drift_limit_percent=limit,
            gates=looked.seen,
            waiting=memory.waiting.get(self.snapshot.ref),
            rollout=self._rollout(),
            loop=(
                overload_telling.loop(
                    self.snapshot, self.spec, self.plan, self.settings.tick, memory.overload
                )
                if self.gates_are_told
                else overload_telling.as_before(self.snapshot)
            ),
        )

    def is_followed(self, seen: Seen) -> bool:
        """Say whether gates are about to serve the spec, and only that is left to wait for.

        Until then the status stays with the generation before, for which it holds.
        """
        is_following = self.looked is not None and self.looked.is_following
        return is_following and status.lacks_only_gates(seen)

    def _rollout(self) -> Rollout | None:
        """Return what is told of the rollout; in trouble only what goes on without other pods."""
        if self.turn is None or (self.trouble is not None and not self.turn.is_stepwise):
            return None
        return self.turn.told

    async def _drifts(self) -> tuple[Drift, ...]:
        """Return how far the engines of the plan are off it; nothing is told of them in trouble."""
        if self.trouble is not None or self.spec is None or self.plan is None:
            return ()
        return await measuring.drifts(
            self.snapshot,
            self.spec,
            self.plan,
            self.cluster,
            self.engines,
            self.clock,
            self.memory,
        )

    def outcome(self) -> Outcome:
        """Return how the pass ended."""
        if self.trouble is not None:
            result: Result = "waiting" if self.trouble.waits else "refused"
            paced = self.turn.again_seconds if self.turn else None
            wait = min(self.wait_seconds, paced or self.wait_seconds)
            return Outcome(result, wait, self.trouble.message)
        assert self.decision is not None
        assert self.looked is not None
        soon = self.looked.again_seconds
        if self.decision.state != State.SETTLED or status.fault(self.looked.seen) is not None:
            return Outcome("moving", min(_MOVING_SECONDS, soon or _MOVING_SECONDS))
        paced = self.turn.again_seconds if self.turn else None
        times = [at for at in (self.snapshot.grace, soon, paced) if at is not None]
        return Outcome("moving" if paced else "settled", min(times, default=None))
