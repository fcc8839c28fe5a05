"""Room: the GPUs of each node that nobody holds, as the rollout hands them out."""

from collections.abc import Iterable, Mapping


class Room:
    """Free GPUs by node; taking some leaves less for the next."""

    def __init__(self, free: Mapping[str, int]) -> None:
        self._free = dict(free)

    def take(self, nodes: Iterable[str], gpus: int, pods: int) -> int:
        """Take room for up to `pods` pods of `gpus` GPUs, each on one node; return how many fit.

        The tightest node is filled first, so that large pods find what small ones leave.
        """
        fitted = 0
        for node in sorted(nodes, key=lambda name: (self._free.get(name, 0), name)):
            while fitted < pods and self._free.get(node, 0) >= gpus:
                self._free[node] -= gpus
                fitted += 1
        return fitted

    def fits(self, nodes: Iterable[str], gpus: int) -> bool:
        """Say whether one pod fits on one of the nodes."""
        return any(self._free.get(node, 0) >= gpus for node in nodes)

    def with_more(self, coming: Mapping[str, int]) -> "Room":
        """Return the room as it is once more GPUs of some nodes are free."""
        nodes = {*self._free, *coming}
        return Room({node: self._free.get(node, 0) + coming.get(node, 0) for node in nodes})

    def on(self, nodes: Iterable[str]) -> tuple[int, int]:
        """Return the free GPUs of the nodes: of all together, and of the freest one."""
        free = [max(0, self._free.get(node, 0)) for node in nodes]
        return sum(free), max(free, default=0)
