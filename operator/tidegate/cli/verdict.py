"""A verdict on a resource or a command line: its plan or its refusal, as the commands show it."""

from dataclasses import dataclass
from typing import Any

from tidegate.core import plan_status
from tidegate.core.canary import needs_told
from tidegate.core.canary.needs import Needs
from tidegate.core.plan import Plan
from tidegate.core.what_if.curves import Basis
from tidegate.errors import Refused, Wait


@dataclass(frozen=True)
class Verdict:
    """What was asked about, and either its plan or why there is none.

    `title` says what runs; `basis` is what the plan was made from beside the engine's flags,
    `rollout` what the next revision of a resource will need.
    """

    name: str
    title: str
    plan: Plan | None
    refusal: Refused | Wait | None
    basis: Basis | None = None
    rollout: Needs | None = None


def wire(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as documented in docs/reference/cli.md."""
    answer: dict[str, Any] = {"name": verdict.name, "fits": verdict.plan is not None}
    plan = verdict.plan
    if plan is None:
        answer["refused"] = refused(verdict.refusal)
        return answer
    answer["refused"] = None
    answer["mode"] = plan.mode
    answer["revision"] = plan.revision
    answer["engineVersion"] = plan.engine_version
    answer["plan"] = [entry.wire() for entry in plan_status.entries(plan)]
    answer["excluded"] = [
        {"pool": e.pool, "nodeClass": e.node_class, "reason": str(e.reason), "message": e.message}
        for e in plan.exclusions
    ]
    answer["because"] = list(plan.because)
    if verdict.rollout is not None:
        answer["rollout"] = needs_told.wire(verdict.rollout)
    return answer


def refused(refusal: Refused | Wait | None) -> dict[str, Any] | None:
    """Return a refusal as JSON; None for none."""
    if refusal is None:
        return None
    return {
        "reason": str(refusal.reason),
        "message": refusal.message,
        "field": getattr(refusal, "field", None),
    }
