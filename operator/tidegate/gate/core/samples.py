"""The last so many samples, in order."""

from bisect import bisect_left, insort
from collections import deque


class Samples:
    """Forgets the oldest for each new one beyond `most`."""

    __slots__ = ("_by_age", "_most", "_order", "_sum")

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_age: deque[float] = deque()
        self._order: list[float] = []
        self._sum = 0.0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Take one."""
        if len(self._order) == self._most:
            oldest = self._by_age.popleft()
            del self._order[bisect_left(self._order, oldest)]
            self._sum -= oldest
        self._by_age.append(value)
        insort(self._order, value)
        self._sum += value

    @property
    def median(self) -> float | None:
        """The median; None without samples."""
        return self._order[len(self._order) // 2] if self._order else None

    @property
    def mean(self) -> float | None:
        """The mean; None without samples."""
        return self._sum / len(self._order) if self._order else None
