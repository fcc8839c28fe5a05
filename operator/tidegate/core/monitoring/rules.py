"""All rules, in the order in which they build on each other, and as Prometheus reads them."""

from typing import Any

from tidegate.core.monitoring import (
    objectives,
    operator_alerts,
    overload_alerts,
    pool_alerts,
    rollout_alerts,
    signals,
)
from tidegate.core.monitoring.rule import Alert, Group, Recording


def groups() -> tuple[Group, ...]:
    """Return every group of rules."""
    return (
        *signals.groups(),
        *objectives.groups(),
        operator_alerts.group(),
        pool_alerts.group(),
        overload_alerts.group(),
        rollout_alerts.group(),
    )


def alerts() -> tuple[Alert, ...]:
    """Return every alert; one that several windows raise comes several times."""
    return tuple(rule for group in groups() for rule in group.rules if isinstance(rule, Alert))


def recordings() -> tuple[Recording, ...]:
    """Return every recording rule."""
    return tuple(rule for group in groups() for rule in group.rules if isinstance(rule, Recording))


def document() -> dict[str, Any]:
    """Return the rule file of Prometheus, which is the spec of a PrometheusRule as well."""
    return {
        "groups": [
            {"name": group.name, "rules": [_rule(rule) for rule in group.rules]}
            for group in groups()
        ]
    }


def _rule(rule: Recording | Alert) -> dict[str, Any]:
    if isinstance(rule, Recording):
        labels = {"labels": {"lever": rule.lever}} if rule.lever else {}
        return {"record": rule.name, "expr": rule.promql, **labels}
    keep = {"keep_firing_for": f"{rule.keep_seconds}s"} if rule.keep_seconds else {}
    burn = {"burn": rule.burn} if rule.burn else {}
    return {
        "alert": rule.name,
        "expr": rule.promql,
        "for": f"{rule.for_seconds}s",
        **keep,
        "labels": {"severity": rule.severity, **burn},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook": f"kubectl tidegate runbook {rule.name}",
        },
    }
