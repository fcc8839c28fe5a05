"""Are there GPUs for all the pods that a pool asks for?"""

from tidegate.api.reasons import Reason
from tidegate.core.checks.subject import Case, Slice
from tidegate.core.checks.verdict import Severity, Verdict


def gpus_are_missing(pool: str, case: Case) -> Verdict | None:
    """More pods than the classes hold, even with no other pod there: the rest stays pending."""
    slices = case.slices_of(pool)
    wanted = sum(at.entry.replicas for at in slices)
    held = sum(_held(at) for at in slices)
    if wanted <= held:
        return None
    gpus = slices[0].entry.gpus
    there = sum(node.gpus for at in slices for node in at.nodes)
    return Verdict(
        Reason.UNSCHEDULABLE,
        Severity.WARN,
        f"{wanted:,} pods of {gpus} GPUs want {wanted * gpus:,}, and the nodes that the pool can "
        f"use have {there:,}, which hold {held:,} pods: the others wait until nodes are added",
        f"spec.pools.{pool}.replicas",
        pool=pool,
    )


def _held(at: Slice) -> int:
    return sum(node.gpus // at.entry.gpus for node in at.nodes)
