"""Alerts on rollouts: one that was taken back, one without a verdict, one that takes very long."""

from tidegate.core.monitoring.promql import NAME, condition
from tidegate.core.monitoring.rule import Alert, Group

STUCK_SECONDS = 6 * 3600
"""Above three steps at their longest by default: an hour of deadline beside ten minutes each."""
_INCONCLUSIVE_SECONDS = 600
_MINUTE = 60


def group() -> Group:
    """Return the alerts."""
    return Group("tidegate.rollout", (_aborted(), _inconclusive(), _stuck()))


def _aborted() -> Alert:
    return Alert(
        name="RolloutAborted",
        promql=_promoted("RolloutAborted"),
        severity="warning",
        for_seconds=0,
        keep_seconds=_MINUTE,
        summary=f"{NAME}: a new revision was taken back",
        description=(
            "The spec's revision was taken back by its metrics, by its pods or by command. The "
            "stable revision serves, and nothing goes on until the spec changes or somebody says "
            "retry."
        ),
    )


def _inconclusive() -> Alert:
    return Alert(
        name="CanaryInconclusive",
        promql=_promoted("CanaryInconclusive"),
        severity="warning",
        for_seconds=_INCONCLUSIVE_SECONDS,
        keep_seconds=0,
        summary=f"{NAME}: a canary waits without a verdict",
        description=(
            "The deadline of a step passed without enough evidence: no traffic, no data from "
            "Prometheus, or no room for its pods. Two revisions serve until that ends."
        ),
    )


def _stuck() -> Alert:
    return Alert(
        name="CanaryStuck",
        promql=_promoted("CanaryRunning|CanaryInconclusive|Promoting"),
        severity="warning",
        for_seconds=STUCK_SECONDS,
        keep_seconds=0,
        summary=f"{NAME}: a rollout has not ended for six hours",
        description=(
            "Neither promoted nor taken back. Long steps are one cause, pods that find no room or "
            "steps without a verdict others."
        ),
    )


def _promoted(reasons: str) -> str:
    return condition(f'type="Promoted",status="False",reason=~"{reasons}"')
