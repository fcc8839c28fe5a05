"""How full a pod's KV cache was of late, by its own metrics."""

from collections import deque

WINDOW_SECONDS = 5.0
"""What the mean is over: some decode steps, so that one that ends between two is no noise.

Twice as long as the time between two reads of a pod, up to a hundred pods: one read may fail.
"""


class LateUsage:
    """The use of a pod's KV cache in the last `WINDOW_SECONDS`, as a mean.

    Whoever looks at an engine only now and then misses a full cache that a moment before or after
    would have shown.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def see(self, usage: float, at: float) -> None:
        """Take what the pod told, 0 to 1, at a time of the monotonic clock."""
        self._seen.append((at, usage))
        self._forget(at)

    def mean(self, now: float) -> float | None:
        """Return the mean, 0 to 1; None where the pod has told nothing of late."""
        self._forget(now)
        return sum(usage for _, usage in self._seen) / len(self._seen) if self._seen else None

    def _forget(self, now: float) -> None:
        while self._seen and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()
