"""What an update does: nothing to the pods, or it replaces all of them; and what it may not do.

Nothing of a spec is immutable: a change that shapes pods is a new revision of all pools, which
rolls. One thing is refused, a change of the mode while another rollout runs: three kinds of pools
would hold GPUs that each of them waits for. Going back to what is still there is always allowed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.quantities import format_bytes
from tidegate.api.reasons import Reason
from tidegate.core import nodes, placement, revision
from tidegate.core.admission.facts import Facts
from tidegate.core.admission.finding import Finding, refusal, warning
from tidegate.core.admission.fit import Judged
from tidegate.core.canary import needs, needs_told, policy, stored
from tidegate.core.canary.state import Phase
from tidegate.core.plan import Plan
from tidegate.core.render import timing
from tidegate.core.rollout.slices import PoolLimits, limits

_MOST_FIELDS = 4
_UNDER_WAY = (Reason.ROLLING_OUT, Reason.NO_ROOM_TO_ROLL)
_HOLDS_TWO = (Phase.CANARY, Phase.ABORTING)
"""Phases with pods of two revisions. Of a promotion the reasons above say whether it has them:
one whose pods never get ready must not forbid the change that mends it."""


def rolls_pods(
    old: LLMDeploymentSpec, new: LLMDeploymentSpec, config: Mapping[str, Any] | None
) -> bool:
    """Say whether a change of the spec replaces pods; a config that is unknown counts as the same.

    A change of `replicas`, of pins to classes or of rollout limits replaces none.
    """
    known = config or {}
    return revision.of(old, known) != revision.of(new, known)


def findings(
    old: Mapping[str, Any],
    old_spec: LLMDeploymentSpec,
    new_spec: LLMDeploymentSpec,
    judged: Judged,
    seen: Facts,
) -> Iterator[Finding]:
    """Yield what is refused of an update, and what it will do."""
    before, after = set(old_spec.pools.by_name()), set(new_spec.pools.by_name())
    if before != after and _is_rolling(old) and not after <= (seen.pools_there or frozenset()):
        yield refusal(
            Reason.MODE_SWITCH_WHILE_ROLLING,
            "spec.pools",
            f"{_listed(before)} cannot become {_listed(after)} while a rollout runs",
        )
    if rolls_pods(old_spec, new_spec, judged.config):
        yield _told(old_spec, new_spec, judged, seen)
    elif _pods(old_spec) and not _pods(new_spec):
        yield warning(Reason.SCALED_TO_ZERO, "spec.pools", "no pod is left, so nothing serves")


def changed_fields(old: LLMDeploymentSpec, new: LLMDeploymentSpec) -> list[str]:
    """Return the paths of the fields that differ, the deepest that both have."""
    return sorted(_differing(old.wire(), new.wire(), "spec"))


def _told(old: LLMDeploymentSpec, new: LLMDeploymentSpec, judged: Judged, seen: Facts) -> Finding:
    changed = changed_fields(old, new)
    named = ", ".join(changed[:_MOST_FIELDS])
    more = f" and {len(changed) - _MOST_FIELDS} more" if len(changed) > _MOST_FIELDS else ""
    pods = _counted({name: pool.replicas for name, pool in old.pools.by_name().items()})
    both = "; until then both models answer" if old.model.id != new.model.id else ""
    return warning(
        Reason.UPDATE_ROLLS_PODS,
        changed[0] if changed else "spec",
        f"{named}{more} changed, so all pods are replaced ({pods}); "
        f"{_way(old, new, judged.plan, seen)}{both}",
    )


def _way(old: LLMDeploymentSpec, new: LLMDeploymentSpec, plan: Plan | None, seen: Facts) -> str:
    """Say how the pods are replaced, and what that takes."""
    if policy.strategy_of(new, can_judge=seen.can_judge) == "Canary":
        return _canary(new, plan, seen)
    return f"{_capacity(old, new, plan, seen)}{_duration(plan)}"


def _canary(new: LLMDeploymentSpec, plan: Plan | None, seen: Facts) -> str:
    if plan is None or seen.nodes is None or seen.gpu_pods is None:
        weights = ", ".join(str(step.weight) for step in new.rollout.steps)
        return f"a canary with {weights} % of the requests, then all"
    free = nodes.free_gpus(seen.nodes, seen.gpu_pods, None, None)
    needed = needs.of(new, plan, seen.nodes, free, can_judge=seen.can_judge)
    return needs_told.in_a_line(needed)


def _capacity(
    old: LLMDeploymentSpec, new: LLMDeploymentSpec, plan: Plan | None, seen: Facts
) -> str:
    """Say how far the ready pods may fall, and in how many steps."""
    if new.rollout.strategy == "Recreate":
        return "rollout.strategy is Recreate, so none serves until the new ones are ready"
    of_pools = {name: _limits(new, pool.replicas) for name, pool in old.pools.by_name().items()}
    steps = max((_steps(of) for of in of_pools.values()), default=1)
    if _has_room(of_pools, plan, seen):
        return f"GPUs are free for the new ones beside them: capacity stays, in {steps} steps"
    low = _counted({name: of.least_ready for name, of in of_pools.items()})
    least = f"down to {low} stay ready (rollout.maxUnavailable)"
    return f"where no GPU is free an old pod gives way first: {least}, in {steps} steps"


def _duration(plan: Plan | None) -> str:
    given_up = timing.STARTUP_SECONDS // 60
    if plan is None or not plan.slices:
        return f", each for as long as a pod takes to start (at most {given_up} min)"
    heaviest = max(entry.sizing.budget.weights.bytes for entry in plan.slices)
    return (
        f", each for as long as a pod takes to load {format_bytes(heaviest)} of weights into each "
        f"GPU (at most {given_up} min)"
    )


def _limits(spec: LLMDeploymentSpec, replicas: int) -> PoolLimits:
    return limits(replicas, spec.rollout.max_surge, spec.rollout.max_unavailable)


def _steps(of: PoolLimits) -> int:
    at_once = max(1, of.surge, of.unavailable)
    return max(1, -(-of.replicas // at_once))


def _has_room(of_pools: Mapping[str, PoolLimits], plan: Plan | None, seen: Facts) -> bool:
    """Say whether each pool's new pods can come up beside the old ones."""
    if plan is None or seen.gpu_pods is None or seen.nodes is None:
        return False
    free = nodes.free_gpus(seen.nodes, seen.gpu_pods, None, None)
    for name, of in of_pools.items():
        if of.replicas and not (of.surge and _room(name, plan, seen.nodes, free)):
            return False
    return True


def _room(pool: str, plan: Plan, known: Sequence[nodes.Node], free: Mapping[str, int]) -> int:
    return sum(
        placement.rooms_on([n for n in known if n.node_class == entry.node_class], free, entry.gpus)
        for entry in plan.of_pool(pool)
    )


def _is_rolling(document: Mapping[str, Any]) -> bool:
    """Say whether the status tells of a rollout under way, be it one that waits for somebody."""
    state = stored.state(document)
    if state is not None and state.phase in _HOLDS_TWO:
        return True
    status = document.get("status") or {}
    return any(
        condition.get("type") == "Reconciling"
        and condition.get("status") == "True"
        and condition.get("reason") in _UNDER_WAY
        for condition in status.get("conditions") or ()
    )


def _pods(spec: LLMDeploymentSpec) -> int:
    return sum(pool.replicas for pool in spec.pools.by_name().values())


def _counted(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in pods.items())


def _listed(pools: set[str]) -> str:
    return " and ".join(sorted(pools, reverse=True))


def _differing(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {*old, *new}:
            yield from _differing(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield path
