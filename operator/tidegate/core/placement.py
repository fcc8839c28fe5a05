"""Dividing a pool's replicas over its classes of node: in proportion to free GPUs, and sticky.

The rule is the highest-averages method (D'Hondt) with the pods that a class could hold as its
weight. It adds and takes one replica at a time, so from a given division it never moves more than
the change needs; replicas that a class can no longer hold move only where there is room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.nodes import Node


@dataclass(frozen=True)
class ClassRoom:
    """A class that a pool may use: pods that its nodes could hold, and what pins it."""

    name: str
    room: int
    pinned: int | None = None


def rooms_on(nodes: Sequence[Node], free: Mapping[str, int], gpus_per_pod: int) -> int:
    """Return how many pods of `gpus_per_pod` the nodes could hold with their free GPUs."""
    return sum(max(0, free.get(node.name, 0)) // gpus_per_pod for node in nodes)


def divide(
    replicas: int, classes: Sequence[ClassRoom], previous: Mapping[str, int]
) -> dict[str, int]:
    """Return replicas by class; they add up to `replicas` unless every class is pinned to less."""
    fixed = {entry.name: entry.pinned for entry in classes if entry.pinned is not None}
    shared = [entry for entry in classes if entry.pinned is None]
    left = max(0, replicas - sum(fixed.values()))
    if not shared:
        return fixed
    room = {entry.name: entry.room for entry in shared}
    now = {name: min(previous.get(name, 0), left) for name in room}
    _shrink(now, room, left)
    _relieve(now, room)
    while sum(now.values()) < left:
        now[_next(now, room)] += 1
    return {entry.name: fixed.get(entry.name, now.get(entry.name, 0)) or 0 for entry in classes}


def _next(now: Mapping[str, int], room: Mapping[str, int]) -> str:
    """The class that gets one more: one with room first, then the highest average, then by name."""
    return min(
        now,
        key=lambda name: (now[name] >= room[name], -room[name] / (now[name] + 1), now[name], name),
    )


def _shrink(now: dict[str, int], room: Mapping[str, int], left: int) -> None:
    """Take replicas away one at a time, from the class that is the fullest for its room."""
    while sum(now.values()) > left:
        held = [name for name in now if now[name] > 0]
        now[min(held, key=lambda name: (room[name] / now[name], -now[name], name))] -= 1


def _relieve(now: dict[str, int], room: Mapping[str, int]) -> None:
    """Move what a class can no longer hold to classes that have room for it."""
    for name in sorted(now):
        while now[name] > room[name]:
            others = [other for other in now if now[other] < room[other]]
            if not others:
                return
            now[name] -= 1
            now[min(others, key=lambda o: (-room[o] / (now[o] + 1), now[o], o))] += 1


def take(
    free: Mapping[str, int], nodes: Sequence[Node], gpus_per_pod: int, pods: int
) -> dict[str, int]:
    """Return what is free after `pods` pods were put on the nodes, fullest fit first."""
    left = dict(free)
    for node in sorted(nodes, key=lambda node: (left.get(node.name, 0), node.name)):
        fitting = min(pods, max(0, left.get(node.name, 0)) // gpus_per_pod)
        left[node.name] = left.get(node.name, 0) - fitting * gpus_per_pod
        pods -= fitting
    return left
