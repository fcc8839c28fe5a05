"""Has a rollout lasted too long without progress? Told from what is stored, without a memory.

Progress is the youngest of: the moment that Reconciling became True, the creation of a slice, and
a pod's becoming ready. Once the deadline has passed, only newer progress or another spec lifts it.
"""

from collections.abc import Sequence

from tidegate.api.conditions import Condition, ConditionType
from tidegate.api.reasons import Reason
from tidegate.core.status import conditions
from tidegate.core.status.seen import Seen


def idle_seconds(seen: Seen, previous: Sequence[Condition], now: float) -> float | None:
    """Return how long there was no progress when that is too long, None while it is not."""
    reconciling = conditions.find(previous, ConditionType.RECONCILING)
    stalled = conditions.find(previous, ConditionType.STALLED)
    progress = seen.last_progress or 0.0
    if _gave_up(stalled, seen.generation):
        assert stalled is not None
        since = conditions.seconds(stalled) or now
        began = since - seen.progress_deadline_seconds
        return now - began if progress <= since else None
    if reconciling is None or reconciling.status != "True":
        return None
    if reconciling.observed_generation != seen.generation:
        return None  # a new spec has just been seen
    began = max(progress, conditions.seconds(reconciling) or now)
    idle = now - began
    return idle if idle > seen.progress_deadline_seconds else None


def _gave_up(stalled: Condition | None, generation: int) -> bool:
    return (
        stalled is not None
        and stalled.status == "True"
        and stalled.reason == Reason.PROGRESS_DEADLINE_EXCEEDED
        and stalled.observed_generation == generation
    )
