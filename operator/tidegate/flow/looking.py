"""A look at a canary: what Prometheus tells and what the operator saw itself, put to the judge."""

from dataclasses import replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names
from tidegate.core.analysis.evidence import Evidence
from tidegate.core.analysis.evidence import Look as Stretch
from tidegate.core.analysis.step import judge_step
from tidegate.core.canary import bounds, ends, steps
from tidegate.core.canary.seen import Look, Seen
from tidegate.core.canary.state import Phase, State
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Evidences, ReadFailed, Ref, Sides


def note_ends(snapshot: Snapshot, state: State, now: float, memory: Memory) -> None:
    """Remember the engines that ended by themselves, for as long as a canary is judged."""
    if state.phase is not Phase.CANARY or state.canary is None:
        memory.ends.pop(snapshot.ref, None)
        return
    before = memory.ends.get(snapshot.ref, {})
    known = memory.causes.get(snapshot.ref, {})
    revisions = frozenset({state.canary, state.stable, state.compared_with})
    memory.ends[snapshot.ref] = ends.seen(before, snapshot.pods, known, now, revisions)


async def look(
    ref: Ref,
    spec: LLMDeploymentSpec,
    state: State,
    seen: Seen,
    evidences: Evidences | None,
    memory: Memory,
) -> Look:
    """Ask for the evidence and judge it; an answer that does not come is a look all the same."""
    if evidences is None:
        return Look(None, trouble="no Prometheus: set prometheus.url of the operator's settings")
    assert state.canary is not None, "only a canary is looked at"
    since = steps.warm_at(state, seen)
    try:
        told = await evidences.of(ref, state.canary, state.compared_with, since, seen.now)
    except ReadFailed as error:
        return Look(None, trouble=str(error))
    sides = _with_own(told, ref, state, memory)
    known = [one.requests for one in sides.canary if one.requests is not None]
    if not known:
        return Look(None)
    rules = bounds.judged(bounds.rules(spec), evidences.metrics, sides.canary, sides.baseline)
    own = steps.own_since(state, seen)
    stretch = Stretch(state.stretch, state.step)
    return Look(
        sum(known),
        judge_step(rules, sides.canary, sides.baseline, stretch, own),
        asked_since=next((one.at for one in sides.canary if one.at >= own and one.requests), None),
        until=sides.canary[-1].at + sides.canary[-1].seconds,
    )


def _with_own(told: Sides, ref: Ref, state: State, memory: Memory) -> Sides:
    """Return the evidence with what this process saw of pods, and heard of engines.

    Of a baseline it asks no engine: its KV is that of the pods that it is equal to.
    """

    def whole(side: tuple[Evidence, ...], revision: str) -> tuple[Evidence, ...]:
        drift = memory.kv_drifts.get(ref, {}).get(names.original_revision(revision))
        counted = ends.with_restarts(side, memory.ends.get(ref, {}), revision)
        return tuple(replace(one, kv_drift_percent=drift) for one in counted)

    assert state.canary is not None, "only a canary has sides"
    return Sides(whole(told.canary, state.canary), whole(told.baseline, state.compared_with))
