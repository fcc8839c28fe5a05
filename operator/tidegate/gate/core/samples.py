"""The last so many samples: their median, or only their mean."""

from bisect import bisect_left, insort
from collections import deque


class Samples:
    """Keeps an order for the median; forgets the oldest for each new one beyond `most`."""

    __slots__ = ("_by_age", "_most", "_order")

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_age: deque[float] = deque()
        self._order: list[float] = []

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Take one."""
        if len(self._order) == self._most:
            oldest = self._by_age.popleft()
            del self._order[bisect_left(self._order, oldest)]
        self._by_age.append(value)
        insort(self._order, value)

    @property
    def median(self) -> float | None:
        """The median; None without samples."""
        return self._order[len(self._order) // 2] if self._order else None


class LateMean:
    """The mean of the last samples, at most so many."""

    __slots__ = ("_by_age", "_most", "_sum", "value")

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_age: deque[float] = deque()
        self._sum = 0.0
        self.value: float | None = None
        """The mean; None without samples."""

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, value: float) -> None:
        """Take one."""
        samples = self._by_age
        if len(samples) == self._most:
            self._sum -= samples.popleft()
        samples.append(value)
        self._sum += value
        self.value = self._sum / len(samples)
