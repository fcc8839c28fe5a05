"""Which nodes a pool's pods can land on, by the rules that the scheduler itself uses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.api.pool_spec import NodeRequirement, Pool, Toleration
from tidegate.api.reasons import Reason
from tidegate.core.nodes import Node, NodeClass
from tidegate.errors import Refused


@dataclass(frozen=True)
class Landing:
    """The classes that a pool matches with the nodes of each, and why other nodes do not count."""

    by_class: Mapping[str, tuple[Node, ...]]
    misses: Mapping[str, int]

    def class_of(self, name: str) -> NodeClass:
        """Return a class by its name."""
        found = self.by_class[name][0].node_class
        assert found is not None  # only nodes with a class are kept
        return found


def find(name: str, pool: Pool, nodes: Sequence[Node]) -> Landing:
    """Return where the pool can land.

    Raises:
        Refused: No node matches (NO_NODE_CLASS, GPU_UNKNOWN), or a pinned class is missing.
    """
    misses: Counter[str] = Counter()
    by_class: dict[str, list[Node]] = {}
    for node in nodes:
        miss = _miss(pool, node)
        if miss:
            misses[miss] += 1
        elif node.node_class is not None:
            by_class.setdefault(node.node_class.name, []).append(node)
    _check_pins(name, pool, by_class)
    pinned = {pin.product for pin in pool.node_classes}
    kept = {
        key: tuple(found)
        for key, found in sorted(by_class.items())
        if not pinned or _product(found) in pinned
    }
    if not kept:
        raise _nowhere(name, len(nodes), misses)
    return Landing(kept, dict(misses))


def tolerates(tolerations: Sequence[Toleration], taint: Mapping[str, str]) -> bool:
    """Say whether the tolerations accept a taint; a soft taint is always accepted."""
    if taint.get("effect") == "PreferNoSchedule":
        return True
    return any(_tolerated(toleration, taint) for toleration in tolerations)


def meets(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """Say whether a node's labels meet a requirement, as the scheduler decides it."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return _compares(requirement, value)


def _compares(requirement: NodeRequirement, value: str | None) -> bool:
    try:
        ours, theirs = int(value or ""), int(requirement.values[0])
    except ValueError:
        return False
    return ours > theirs if requirement.operator == "Gt" else ours < theirs


def _miss(pool: Pool, node: Node) -> str | None:
    """Return why a node does not count, None when it does."""
    if node.gpus == 0:
        return "have no nvidia.com/gpu"
    if not all(node.labels.get(k) == v for k, v in pool.node_selector.items()):
        return "do not match nodeSelector"
    if not all(meets(requirement, node.labels) for requirement in pool.node_affinity):
        return "do not match nodeAffinity"
    if not all(tolerates(pool.tolerations, taint) for taint in node.taints if _is_hard(taint)):
        return "have a taint that the pool does not tolerate"
    if node.node_class is None:
        return "do not tell their GPU"
    return None


_LIFECYCLE_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)


def _is_hard(taint: Mapping[str, str]) -> bool:
    """A node that is away or cordoned keeps its class: its pods serve on, and it may come back."""
    return taint.get("key") not in _LIFECYCLE_TAINTS


def _tolerated(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    if toleration.effect is not None and toleration.effect != taint.get("effect"):
        return False
    if toleration.key is None:
        return toleration.operator == "Exists"
    if toleration.key != taint.get("key"):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (taint.get("value") or "")


def _product(nodes: Sequence[Node]) -> str | None:
    return nodes[0].node_class.product if nodes[0].node_class else None


def _check_pins(name: str, pool: Pool, by_class: Mapping[str, Sequence[Node]]) -> None:
    there = sorted({product for nodes in by_class.values() if (product := _product(nodes))})
    for index, pin in enumerate(pool.node_classes):
        if pin.product not in there:
            known = (
                f"the pool can land on {', '.join(there)}" if there else "no node matches at all"
            )
            raise Refused(
                Reason.NODE_CLASS_MISSING,
                f"no node of class {pin.product} matches the pool {name}; {known}",
                f"spec.pools.{name}.nodeClasses[{index}].product",
            )


def _nowhere(name: str, count: int, misses: Mapping[str, int]) -> Refused:
    if misses.get("do not tell their GPU"):
        return Refused(
            Reason.GPU_UNKNOWN,
            f"{misses['do not tell their GPU']} nodes that match the pool {name} have GPUs, but no "
            "label and no setting tells which; run GPU feature discovery or declare the class in "
            "the operator's nodeClasses setting",
            f"spec.pools.{name}",
        )
    detail = ", ".join(f"{number} {miss}" for miss, number in sorted(misses.items()))
    return Refused(
        Reason.NO_NODE_CLASS,
        f"the pool {name} matches none of {count} nodes"
        + (f": {detail}" if detail else "; add a node with GPUs"),
        f"spec.pools.{name}",
    )
