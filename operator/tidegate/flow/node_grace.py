"""Nodes that vanish or lose their labels for a moment keep their class for that moment.

A restart of GPU feature discovery takes the labels from every node for some seconds; without this,
every deployment would be planned anew, twice.
"""

from collections.abc import Iterable

from tidegate.core.nodes import Node
from tidegate.flow.memory import Memory, SeenNode


def steady(
    current: Iterable[Node], memory: Memory, now: float, grace_seconds: float
) -> tuple[list[Node], float | None]:
    """Return the nodes to plan with, and after how many seconds one of them loses its grace.

    Args:
        current: The nodes as they are.
        memory: Holds how they were while their class was known; updated.
        now: Monotonic seconds.
        grace_seconds: How long a node may be away.
    """
    by_name = {node.name: node for node in current}
    for name, node in by_name.items():
        if node.node_class is not None and name not in memory.nodes:
            memory.nodes[name] = SeenNode(node)
    result = dict(by_name)
    left: list[float] = []
    for name, seen in list(memory.nodes.items()):
        there = by_name.get(name)
        if there is not None and there.node_class == seen.node.node_class:
            memory.nodes[name] = SeenNode(there)
            continue
        if seen.missing_since is None:
            seen.missing_since = now
        rest = seen.missing_since + grace_seconds - now
        if rest > 0:
            result[name] = seen.node
            left.append(rest)
        elif there is not None and there.node_class is not None:
            memory.nodes[name] = SeenNode(there)
        else:
            del memory.nodes[name]
    return [result[name] for name in sorted(result)], min(left, default=None)
