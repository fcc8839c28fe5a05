"""Pairs whose KV cache does not come over: for a while their decode pods prefill alone.

A pair that cannot move KV costs a prefill for nothing and an error for each request, while both
of its pods are well. What fails is counted by pair, by the pod that gives and by the pod that
takes: a side that moves nothing is known after a few requests, however many pairs it is part of.
One request in a while finds out whether it works again.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass

from tidegate.gate.core.entry import Entry
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.exchange import Outcome

LOST_IN_A_ROW = 2
SKIPPED_SECONDS = 5.0
LONGEST_SKIPPED_SECONDS = 60.0
_LOSSES = frozenset({Outcome.ENGINE_FAILED, Outcome.DEADLINE})
"""How an answer ends whose KV cache did not come: engines answer 500, or wait."""

_Key = tuple[str | None, str | None]
"""The pod that gives and the pod that takes; None for any."""


@dataclass(slots=True)
class _Streak:
    """Transfers lost in a row, and what follows from it."""

    lost: int = 0
    skipped_until: float = float("-inf")
    skipped_seconds: float = 0.0

    def skip(self, now: float) -> None:
        """Skip it for a while, for twice as long each time."""
        longer = max(SKIPPED_SECONDS, 2 * self.skipped_seconds)
        self.skipped_seconds = min(LONGEST_SKIPPED_SECONDS, longer)
        self.skipped_until = now + self.skipped_seconds


class Transfers:
    """What became of late transfers."""

    def __init__(self) -> None:
        self._streaks: dict[_Key, _Streak] = {}

    def present(self, names: Container[str]) -> None:
        """Take the pods that there are; what is known of others is forgotten."""
        self._streaks = {
            key: streak
            for key, streak in self._streaks.items()
            if all(name is None or name in names for name in key)
        }

    def work(self, prefill: PodBook, decode: PodBook, now: float) -> bool:
        """Tell whether decode is likely to get what prefill computes."""
        known = self._known(prefill.pod.name, decode.pod.name)
        return all(now >= streak.skipped_until for streak in known)

    def began(self, prefill: PodBook, decode: PodBook, now: float) -> None:
        """A pair got a request: where it is a trial, no other goes along before it is over."""
        for streak in self._known(prefill.pod.name, decode.pod.name):
            if streak.skipped_seconds:
                streak.skip(now)

    def came(self, entry: Entry) -> None:
        """A request that was prefilled elsewhere has its answer."""
        if entry.prefilled_by is None:
            return
        for key in _keys(entry.prefilled_by, entry.pod.pod.name):
            self._streaks.pop(key, None)
        entry.prefilled_by = None

    def lost(self, entry: Entry, outcome: Outcome, now: float) -> bool:
        """Tell whether an end without an answer means a lost transfer, and count it."""
        if entry.prefilled_by is None or outcome not in _LOSSES:
            return False
        for key in _keys(entry.prefilled_by, entry.pod.pod.name):
            streak = self._streaks.setdefault(key, _Streak())
            streak.lost += 1
            if streak.lost >= LOST_IN_A_ROW and now >= streak.skipped_until:
                streak.skip(now)
        return True

    def _known(self, prefill: str, decode: str) -> Iterator[_Streak]:
        if self._streaks:
            for key in _keys(prefill, decode):
                if (streak := self._streaks.get(key)) is not None:
                    yield streak


def _keys(prefill: str, decode: str) -> tuple[_Key, ...]:
    return (prefill, decode), (prefill, None), (None, decode)
