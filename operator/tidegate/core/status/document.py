"""The status document, within the bounds of its schema."""

from tidegate.api.conditions import ConditionType
from tidegate.api.llmdeployment_status import GateStatus, LLMDeploymentStatus, PoolStatus
from tidegate.api.rollout_status import RolloutStatus
from tidegate.core import plan_status
from tidegate.core.status import conditions, judge
from tidegate.core.status.seen import Seen

_ENTRIES, _PODS, _WARNINGS, _LINE = 48, 128, 32, 1024


def make(seen: Seen, previous: LLMDeploymentStatus | None, now: float) -> LLMDeploymentStatus:
    """Return the status.

    Args:
        seen: What this pass has seen and decided.
        previous: The status as it is stored, None for the first one.
        now: Seconds since 1970.
    """
    before = previous.conditions if previous else []
    merged = conditions.merge(judge.verdicts(seen, before, now), before, seen.generation, now)
    ready = conditions.find(merged, ConditionType.READY)
    plan = seen.plan
    return LLMDeploymentStatus(
        observed_generation=seen.generation,
        mode=plan.mode if plan else None,
        revision=plan.revision if plan else None,
        pods=_pods(seen),
        address=seen.gates.address if seen.gates else None,
        gate=(
            GateStatus(desired=seen.gates.desired, ready=seen.gates.ready) if seen.gates else None
        ),
        kv_tokens=plan_status.kv_tokens(plan) if plan else None,
        reason=ready.reason if ready else None,
        conditions=merged,
        overload=seen.loop.status,
        plan=plan_status.entries(plan, seen.drifts)[:_ENTRIES] if plan else [],
        excluded=plan_status.exclusions(plan)[:_ENTRIES] if plan else [],
        warnings=[conditions.clipped(line, _LINE) for line in seen.warnings[:_WARNINGS]],
        rollout=_rollout(seen, previous),
        pools=[
            PoolStatus(
                name=pool.name,
                revision=pool.revision,
                desired=pool.desired,
                ready=pool.ready,
                updated=pool.updated,
            )
            for pool in seen.pools
        ],
    )


def _rollout(seen: Seen, previous: LLMDeploymentStatus | None) -> RolloutStatus | None:
    """Return the rollout's state; in trouble it stays as it is, for it must not be lost."""
    if seen.rollout is not None:
        return seen.rollout.status
    return previous.rollout if previous else None


def _pods(seen: Seen) -> str | None:
    """Return ready and desired pods: `2/2`, or `prefill 1/1, decode 2/2`."""
    counts = [(pool.name, f"{pool.ready}/{pool.desired}") for pool in seen.pools]
    if len(counts) == 1:
        return counts[0][1]
    text = ", ".join(f"{name} {count}" for name, count in counts)
    return conditions.clipped(text, _PODS) or None
