"""Conditions as the Kubernetes API conventions and kstatus define them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tidegate.api.wire import Wire


class ConditionType(StrEnum):
    """The conditions of an LLMDeployment."""

    READY = "Ready"  # every pod that is asked for serves the current spec
    RECONCILING = "Reconciling"  # the cluster is being brought to the current spec
    STALLED = "Stalled"  # nothing will happen until somebody acts
    BUDGET_FITS = "BudgetFits"  # the plan gives every pool at least one request of maxModelLen
    AVAILABLE = "Available"  # each pool has at least one ready pod
    BUDGET_DRIFT = "BudgetDrift"  # engines have another amount of KV than was planned
    RENDERING_CURRENT = "RenderingCurrent"  # pods are as this version and settings render them
    METRICS_AVAILABLE = "MetricsAvailable"  # Prometheus tells what the slow loop decides by
    OVERLOADED = "Overloaded"  # a pool is over a threshold of spec.overload
    PROMOTED = "Promoted"  # the spec's revision has all requests, and nothing else is left
    CANARY_HEALTHY = "CanaryHealthy"  # a look of this step has passed, and no verdict is overdue
    PROGRESSING = "Progressing"  # the rollout goes on by itself
    TRAFFIC_SHIFTED = "TrafficShifted"  # another deployment serves a share of the requests


Status = Literal["True", "False", "Unknown"]


class Condition(Wire):
    """One condition; kept by type, `lastTransitionTime` moves only when `status` does."""

    type: Annotated[str, Field(max_length=64)]
    """Name of the condition."""
    status: Status
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
    """A documented constant."""
    message: Annotated[str, Field(max_length=4096)]
    """A sentence with the numbers and what would work."""
    observed_generation: Annotated[int, Field(ge=0)]
    """The generation of the spec that this was decided for."""
    last_transition_time: Annotated[
        str, Field(max_length=32, json_schema_extra={"format": "date-time"})
    ]
    """When the status last changed, RFC 3339."""
