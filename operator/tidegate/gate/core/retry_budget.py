"""How many requests may be sent a second time: a share of those that came."""

from collections import deque

SHARE = 0.2
WINDOW_SECONDS = 10.0
FEWEST = 3
"""Retries in a window that are allowed whatever came: a share of little traffic is none."""
_SLOTS_PER_SECOND = 2


class RetryBudget:
    """20 % of the requests of the last 10 seconds."""

    def __init__(self) -> None:
        self._slots: deque[list[int]] = deque()
        self._requests = 0
        self._retries = 0

    def asked(self, now: float) -> None:
        """Count a request."""
        self._slot(now)[1] += 1
        self._requests += 1

    def take(self, now: float) -> bool:
        """Tell whether one more may be sent again, and count it."""
        slot = self._slot(now)
        if self._retries >= max(FEWEST, SHARE * self._requests):
            return False
        slot[2] += 1
        self._retries += 1
        return True

    def _slot(self, now: float) -> list[int]:
        number = int(now * _SLOTS_PER_SECOND)
        slots = self._slots
        if slots and slots[-1][0] == number:
            return slots[-1]
        oldest = number - int(WINDOW_SECONDS * _SLOTS_PER_SECOND)
        while slots and slots[0][0] <= oldest:
            _, requests, retries = slots.popleft()
            self._requests -= requests
            self._retries -= retries
        slots.append([number, 0, 0])
        return slots[-1]
