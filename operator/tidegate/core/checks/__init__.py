"""The checks on a plan: what would not start, what may disappoint, and the nearest change.

`check` judges a plan that was made, `check_spec` a spec, which may have none. Pure: the same spec,
config and nodes always lead to the same verdicts. A check is one function that names a violation
and returns a verdict or None; `chain` lists them all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.checks import chain, refusals
from tidegate.core.checks.subject import Case, World
from tidegate.core.checks.verdict import Change, Severity, Verdict
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan
from tidegate.errors import Refused

__all__ = ["Change", "Severity", "Verdict", "check", "check_spec", "refusal_of"]

_GRAVITY = {severity: place for place, severity in enumerate(Severity)}


def check(
    spec: LLMDeploymentSpec,
    plan: Plan,
    model_config: Mapping[str, Any],
    nodes: Sequence[Node],
) -> list[Verdict]:
    """Return the verdicts on a plan, the gravest first.

    Args:
        spec: What the user asks for.
        plan: The plan made from it.
        model_config: The model's config.json.
        nodes: Every node of the cluster, as the plan saw them.
    """
    divided = {(entry.pool, entry.node_class.name): entry.replicas for entry in plan.slices}
    case = Case(spec, plan, World(model_config, nodes, divided))
    return _sorted(chain.verdicts(case) + refusals.of_excluded_classes(case))


def check_spec(
    spec: LLMDeploymentSpec, model_config: Mapping[str, Any], nodes: Sequence[Node]
) -> tuple[Plan | None, list[Verdict]]:
    """Return the plan of a spec, None where it is refused, and all verdicts, the gravest first.

    All faults of a refused spec are told together, each with what would mend it.
    """
    world = World(model_config, nodes)
    plan, faults = None, refusals.of_spec(spec, world)
    told = [refusals.verdict(spec, world, fault, faults) for fault in faults]
    try:
        plan = world.plan(spec)
    except Refused as refusal:
        if not any(refusal.field == fault.field for fault in faults):
            told.append(refusals.verdict(spec, world, refusal))
    if plan is not None:
        told += check(spec, plan, model_config, nodes)
    return plan, _sorted(told)


def refusal_of(verdicts: Sequence[Verdict]) -> Refused | None:
    """Return the refusals among verdicts as one, with the reason of the first; None without one."""
    refused = [verdict for verdict in verdicts if verdict.severity is Severity.REFUSE]
    if not refused:
        return None
    return Refused(refused[0].reason, "; ".join(v.text for v in refused), refused[0].field)


def _sorted(verdicts: list[Verdict]) -> list[Verdict]:
    """Put the gravest first, and keep the order of the chain within."""
    return sorted(verdicts, key=lambda verdict: _GRAVITY[verdict.severity])
