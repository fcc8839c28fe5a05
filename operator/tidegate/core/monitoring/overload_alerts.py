"""Alerts on what protects: data, shares that last or swing, levers, configurations."""

from tidegate.core.monitoring.promql import (
    DEPLOYMENT,
    NAME,
    by_reason,
    condition,
    gates,
    held,
    label_now,
    operators,
)
from tidegate.core.monitoring.rule import Alert, Group

TURNS = 3
"""Changes of direction in half an hour; one overload that comes and goes makes one."""
_MINUTE, _HOUR = 60, 3600


def group() -> Group:
    """Return the alerts."""
    return Group(
        "tidegate.overload",
        (_metrics(), _shedding(), _oscillation(), _override(), _config()),
    )


def _metrics() -> Alert:
    unavailable = 'type="MetricsAvailable", status="False"'
    return Alert(
        name="MetricsStale",
        promql=condition(unavailable),
        severity="warning",
        for_seconds=5 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary=f"{NAME}: the overload loop has no data",
        description=(
            f"Condition MetricsAvailable is False{by_reason(unavailable)}. The last shares hold "
            "for spec.overload.holdFor; then the gates' own token budget alone protects."
        ),
    )


def _shedding() -> Alert:
    return Alert(
        name="Shedding",
        promql='last_over_time(tidegate:share:percent{lever="shed"}[5m]) > 0',
        severity="warning",
        for_seconds=30 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: requests are shed for half an hour",
        description=(
            "Gates turn away {{ $value }} % of the requests of classes that may be shed, without "
            "a break for 30 minutes: demand is above capacity, or a lever was left."
        ),
    )


def _oscillation() -> Alert:
    return Alert(
        name="ShiftOscillation",
        promql=f"changes(tidegate:share:direction[30m]) >= {TURNS}",
        severity="warning",
        for_seconds=0,
        keep_seconds=15 * _MINUTE,
        summary=f"{NAME}: the share to {{{{ $labels.lever }}}} swings",
        description=(
            "The share to {{ $labels.lever }} changed its direction {{ $value }} times in half an "
            "hour: the thresholds are too near to each other, or two deployments push load to "
            "and fro."
        ),
    )


def _override() -> Alert:
    until = operators("tidegate_override_until_timestamp_seconds")
    return Alert(
        name="OverrideActive",
        promql=f"{held(until)} > time()",
        severity="warning",
        for_seconds=_HOUR,
        keep_seconds=0,
        summary=f"{NAME}: a lever is set for over an hour",
        description=(
            f"spec.overload.override{label_now(until, 'action', ' ({})')} holds instead of the "
            "loop for over an hour; who set it, why and until when is in the resource."
        ),
    )


def _config() -> Alert:
    valid = gates("tidegate_gate_config_valid")
    return Alert(
        name="GateConfigRejected",
        promql=f"min by ({DEPLOYMENT}) ({valid}) == 0",
        severity="warning",
        for_seconds=5 * _MINUTE,
        keep_seconds=2 * _MINUTE,
        summary=f"{NAME}: a gate refuses its configuration",
        description=(
            "A gate refuses the newest configuration and goes on with the one before, or has "
            "none: new endpoints, limits, shares and levers do not reach it."
        ),
    )
