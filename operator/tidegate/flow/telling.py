"""Telling what a pass came to: the status where it differs, and Events for transitions."""

from tidegate.api import stored
from tidegate.api.conditions import Condition, ConditionType
from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.reasons import Reason
from tidegate.core import status
from tidegate.core.overload import events
from tidegate.core.status import Seen
from tidegate.flow.memory import Memory, Told
from tidegate.flow.ports import Clock, Cluster, Document, Ref, WriteFailed

_EXPECTED = (
    Reason.READY,
    Reason.SCALED_TO_ZERO,
    Reason.PODS_STARTING,
    Reason.SCALING,
    Reason.ROLLING_OUT,
    Reason.METRICS_FRESH,
)
"""Reasons that nobody has to do anything about."""
_TOLD_BY_THE_ROLLOUT = frozenset(
    {
        Reason.CANARY_RUNNING,
        Reason.CANARY_INCONCLUSIVE,
        Reason.ROLLOUT_PAUSED,
        Reason.ROLLOUT_ABORTED,
    }
)
"""Reasons that a canary's turn has an Event for already, at the same moment."""


def previous(document: Document) -> LLMDeploymentStatus | None:
    """Return the stored status, None for none; of one by another version what can be read."""
    there = document.get("status")
    return stored.read_parts(LLMDeploymentStatus, there) if there else None


async def tell(
    ref: Ref, document: Document, seen: Seen, cluster: Cluster, clock: Clock, memory: Memory
) -> None:
    """Write the status if it differs from what is stored.

    An API server whose CRD is older than this process drops what it does not know. A write that
    led to nothing is not done again, else every pass would do it and see a transition in it.

    Raises:
        WriteFailed: It could not be written, and the deployment is still there.
    """
    version: str = document["metadata"]["resourceVersion"]
    told = memory.told.get(ref)
    before, there = previous(document), document.get("status") or {}
    if told is not None and told.version == version:
        before, there = told.status, told.document
    after = status.make(seen, before, clock.now())
    wanted = _document(after, there)
    if wanted == there:
        return
    try:
        written = await cluster.set_status(ref, version, wanted)
    except WriteFailed as error:
        if error.status == 404:
            return  # gone meanwhile
        raise
    if written["metadata"]["resourceVersion"] == version:
        memory.told[ref] = Told(version, after, wanted)
    for condition in _transitions(before, after):
        is_expected = condition.reason in _EXPECTED
        await cluster.emit(
            ref, "Normal" if is_expected else "Warning", condition.reason, condition.message
        )
    event = events.between(before.overload if before else None, after.overload)
    if event is not None:
        await cluster.emit(ref, event.kind, event.reason, event.message)


def _document(after: LLMDeploymentStatus, there: Document) -> Document:
    """Return the status as it is written: a rollout that cannot be read stays as it stands."""
    unread = {"rollout": there["rollout"]} if after.rollout is None and "rollout" in there else {}
    return {**after.wire(), **unread}


def _transitions(before: LLMDeploymentStatus | None, after: LLMDeploymentStatus) -> list[Condition]:
    """Return what is worth an Event: Ready and what it is for, a standstill, and lost metrics."""
    known = (
        {entry.type: (entry.status, entry.reason) for entry in before.conditions} if before else {}
    )
    told = []
    for condition in after.conditions:
        changed = known.get(condition.type) != (condition.status, condition.reason)
        if condition.reason in _TOLD_BY_THE_ROLLOUT:
            continue
        is_standstill = condition.type == ConditionType.STALLED and condition.status == "True"
        is_of_metrics = condition.type == ConditionType.METRICS_AVAILABLE and (
            condition.status == "False" or known.get(condition.type, ("",))[0] == "False"
        )
        if changed and (condition.type == ConditionType.READY or is_standstill or is_of_metrics):
            told.append(condition)
    if len(told) == 2 and (told[0].reason, told[0].message) == (told[1].reason, told[1].message):
        return told[:1]
    return told
