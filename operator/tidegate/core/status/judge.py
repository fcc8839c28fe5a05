"""The verdict on each condition.

kstatus reads them so: Stalled=True is a failure, Reconciling=True is under way, neither of them
with Ready=True and the right observedGeneration is current. So both are never True together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.api.conditions import Condition, ConditionType, Status
from tidegate.api.reasons import Reason
from tidegate.core.measure import drift
from tidegate.core.rollout.slices import State
from tidegate.core.status import deadline, gates, rollout
from tidegate.core.status.conditions import Verdict
from tidegate.core.status.seen import Seen

_UNDER_WAY = {
    State.STARTING: Reason.PODS_STARTING,
    State.SCALING: Reason.SCALING,
    State.ROLLING: Reason.ROLLING_OUT,
    State.BLOCKED: Reason.NO_ROOM_TO_ROLL,
}
_NO_BUDGET = (Reason.WEIGHTS_DO_NOT_FIT, Reason.BUDGET_TOO_SMALL, Reason.NODE_TOO_SMALL)


def verdicts(seen: Seen, previous: Sequence[Condition], now: float) -> list[Verdict]:
    """Return what each condition is to say, Ready first."""
    stalled = _stalled(seen, previous, now)
    return [
        _ready(seen),
        _reconciling(seen, stalled.status == "True"),
        stalled,
        _budget_fits(seen),
        _available(seen),
        _budget_drift(seen),
        _rendering_current(seen),
        *rollout.verdicts(seen.rollout),
        *seen.loop.verdicts,
    ]


def lacks_only_gates(seen: Seen) -> bool:
    """Say whether it would be Ready if a gate served the current spec."""
    unfinished = _unfinished(seen) if seen.trouble is None else None
    return unfinished is not None and unfinished.reason == Reason.GATE_UNAVAILABLE


@dataclass(frozen=True)
class _Unfinished:
    """What is not as the spec wants it; `is_final` when nothing will happen until somebody acts.

    `is_paced` says that waiting belongs to it: it has deadlines of its own.
    """

    reason: Reason
    message: str
    is_final: bool
    is_paced: bool = False


def _unfinished(seen: Seen) -> _Unfinished | None:
    """Return what is left to be done: by the rollout, and then by the gates."""
    assert seen.decision is not None, "without trouble there is a decision"
    state, fault = seen.decision.state, gates.fault(seen.gates)
    paced = rollout.unfinished(seen.rollout)
    if paced is not None:
        blocked = f" {seen.decision.message}" if state == State.BLOCKED else ""
        return _Unfinished(paced.reason, f"{paced.message}{blocked}", paced.is_final, is_paced=True)
    if state != State.SETTLED:
        return _Unfinished(_UNDER_WAY[state], seen.decision.message, state == State.BLOCKED)
    return _Unfinished(fault.reason, fault.message, fault.is_final) if fault else None


def _ready(seen: Seen) -> Verdict:
    ready = ConditionType.READY
    if seen.trouble is not None:
        return Verdict(ready, "False", seen.trouble.reason, seen.trouble.message)
    assert seen.decision is not None
    unfinished = _unfinished(seen)
    if unfinished is None:
        wanted = any(pool.desired for pool in seen.pools)
        reason = Reason.READY if wanted else Reason.SCALED_TO_ZERO
        return Verdict(ready, "True", reason, seen.decision.message)
    is_rolling = seen.decision.state != State.SETTLED and not unfinished.is_paced
    if seen.cause is not None and is_rolling:
        return Verdict(ready, "False", seen.cause.reason, seen.cause.message)
    return Verdict(ready, "False", unfinished.reason, unfinished.message)


def _reconciling(seen: Seen, is_stalled: bool) -> Verdict:
    kind = ConditionType.RECONCILING
    if seen.trouble is not None:
        waits = seen.trouble.waits
        return Verdict(
            kind, "True" if waits else "False", seen.trouble.reason, seen.trouble.message
        )
    unfinished = _unfinished(seen)
    if unfinished is None:
        return Verdict(kind, "False", Reason.SETTLED, "The cluster matches the spec.")
    status: Status = "False" if is_stalled else "True"
    return Verdict(kind, status, unfinished.reason, unfinished.message)


def _stalled(seen: Seen, previous: Sequence[Condition], now: float) -> Verdict:
    kind = ConditionType.STALLED
    if seen.trouble is not None:
        if seen.trouble.waits:
            return Verdict(kind, "False", seen.trouble.reason, "It goes on by itself.")
        return Verdict(kind, "True", seen.trouble.reason, seen.trouble.message)
    unfinished = _unfinished(seen)
    if unfinished is None:
        return Verdict(kind, "False", Reason.SETTLED, "The cluster matches the spec.")
    if unfinished.is_final:
        return Verdict(kind, "True", unfinished.reason, unfinished.message)
    if not unfinished.is_paced and deadline.idle_seconds(seen, previous, now) is not None:
        limit = f"{seen.progress_deadline_seconds:g} s (rollout.progressDeadline)"
        why = f"; {seen.cause.message}" if seen.cause else ""
        return Verdict(
            kind,
            "True",
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            f"No progress within {limit}: {unfinished.message}{why}",
        )
    return Verdict(kind, "False", unfinished.reason, "It goes on by itself.")


def _budget_fits(seen: Seen) -> Verdict:
    kind, trouble = ConditionType.BUDGET_FITS, seen.trouble
    if seen.plan is not None:
        least = min(
            (entry.sizing.requests_at_max_model_len for entry in seen.plan.slices), default=0
        )
        return Verdict(
            kind,
            "True",
            Reason.FITS,
            f"Each pod holds at least {least} {'request' if least == 1 else 'requests'} of "
            "maxModelLen.",
        )
    if trouble is not None and trouble.reason in _NO_BUDGET:
        return Verdict(kind, "False", trouble.reason, trouble.message)
    return Verdict(kind, "Unknown", Reason.NOT_PLANNED, trouble.message if trouble else "No plan.")


def _available(seen: Seen) -> Verdict:
    kind = ConditionType.AVAILABLE
    counts = ", ".join(f"{pool.name} {pool.ready}" for pool in seen.pools)
    outage = gates.outage(seen.gates) if seen.is_serving else None
    if outage is not None:
        return Verdict(kind, "False", outage.reason, f"{outage.message}; ready pods: {counts}.")
    if seen.is_serving:
        return Verdict(kind, "True", Reason.POOLS_AVAILABLE, f"Ready pods: {counts}.")
    if seen.trouble is None and not any(pool.desired for pool in seen.pools):
        return Verdict(kind, "False", Reason.SCALED_TO_ZERO, "Every pool asks for no pods.")
    return Verdict(
        kind,
        "False",
        Reason.POOL_UNAVAILABLE,
        f"No revision has a ready pod in each pool; ready pods: {counts or 'none'}.",
    )


def _rendering_current(seen: Seen) -> Verdict:
    kind = ConditionType.RENDERING_CURRENT
    if seen.waiting is None:
        return Verdict(kind, "Unknown", Reason.NOT_PLANNED, "Nothing was rendered yet.")
    if not seen.waiting:
        return Verdict(kind, "True", Reason.RENDERED_NOW, "Pods are as this Tidegate renders them.")
    listed = ", ".join(seen.waiting)
    return Verdict(
        kind,
        "False",
        Reason.RENDERED_BEFORE,
        f"These slices run as they were rendered when they were made: {listed}. What is rendered "
        "otherwise today is taken along by the next change that makes a new revision.",
    )


def _budget_drift(seen: Seen) -> Verdict:
    status, reason, message = drift.judge(seen.drifts, seen.drift_limit_percent)
    return Verdict(ConditionType.BUDGET_DRIFT, status, reason, message)
