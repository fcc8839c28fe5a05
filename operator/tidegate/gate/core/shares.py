"""Shares of the requests, exact: which are shed, which are shifted, which revision serves.

Chance would give 200 of 1,000 within 25. Here a debt grows by the share with each request and
shrinks by one with each that is taken, and it stays within bounds. Nothing that a client chooses
has a part in it, its class apart: who could name the lot that was drawn for an earlier request of
his would never be shed.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar

from tidegate.gate.exchange import Ask

_ONE = 1_000_000
"""A request, in millionths, so that shares add up without rounding."""
_STEP = 900_000
"""How much more debt it takes to take a request of the next class up.

Ten classes keep the debt within 9.1 requests: of any 1,000 the share is within one percent point,
and where all are of one class within one request.
"""
_START = 5 * _ONE
_MOST = _ONE + 9 * _STEP
_REMEMBERED = 4096
_MOST_ROUNDS = 64
"""Sets of names; those that are drawn from no more are forgotten first."""
_NOBODY = 10
"""A floor that no class reaches."""

_Lot = TypeVar("_Lot")


class Percentage:
    """Takes a percentage of the requests, those of the lowest class first."""

    def __init__(self) -> None:
        self._debt = _START
        self._drawn: _Drawn[bool] = _Drawn()

    def takes(self, ask: Ask, percent: float, floor: int = _NOBODY) -> bool:
        """Draw for a request; asked again about the same one, the answer is the same.

        Classes from `floor` up are never taken; their part of the percentage falls on the others.
        """
        if not percent:
            return False
        drawn = self._drawn.lot(ask)
        if drawn is not None:
            return drawn
        if ask.caller.priority >= floor:
            self.passes(ask, percent)
            return False
        debt = self._debt + round(percent * _ONE / 100)
        taken = debt >= _ONE + ask.caller.priority * _STEP or percent >= 100
        self._debt = min(max(0, debt - _ONE if taken else debt), _MOST)
        self._drawn.keep(ask, taken)
        return taken

    def passes(self, ask: Ask, percent: float) -> None:
        """Count a request that something else has taken, or that is not to be taken."""
        if self._drawn.lot(ask) is None:
            self._debt = min(self._debt + round(percent * _ONE / 100), _MOST)
            self._drawn.keep(ask, False)


class Weights:
    """Chooses among names by their weights: smooth weighted round robin.

    Requests that differ in the names that they may go to have each a round of their own: in one
    for all, names that only some of them reach would take from the others' shares.
    """

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, ...], dict[str, int]] = {}
        self._drawn: _Drawn[str] = _Drawn()

    def order(self, ask: Ask, weights: Mapping[str, int]) -> list[str]:
        """Return the names with the chosen one first, then by weight."""
        if len(weights) < 2:
            return list(weights)
        first = self._first(ask, weights)
        return sorted(weights, key=lambda name: (name != first, -weights[name]))

    def _first(self, ask: Ask, weights: Mapping[str, int]) -> str:
        before = self._drawn.lot(ask)
        if before is not None and before in weights:
            return before
        total = sum(weights.values())
        names = tuple(weights)
        held = self._rounds.pop(names, {})
        credits = {name: held.get(name, 0) + weight for name, weight in weights.items()}
        self._rounds[names] = credits
        if len(self._rounds) > _MOST_ROUNDS:
            del self._rounds[next(iter(self._rounds))]
        chosen = max(credits, key=credits.__getitem__)
        credits[chosen] -= total
        self._drawn.keep(ask, chosen)
        return chosen


class _Drawn(Generic[_Lot]):
    """What late requests drew, by the gate's own serial numbers; a bounded number of them."""

    def __init__(self) -> None:
        self._lots: dict[int, _Lot] = {}

    def lot(self, ask: Ask) -> _Lot | None:
        """Return what this request drew; None while it has drawn nothing."""
        return self._lots.get(ask.serial)

    def keep(self, ask: Ask, lot: _Lot) -> None:
        """Remember a lot, and forget the oldest beyond the bound."""
        self._lots.pop(ask.serial, None)
        self._lots[ask.serial] = lot
        if len(self._lots) > _REMEMBERED:
            del self._lots[next(iter(self._lots))]


def is_valid(until: datetime | None, wall: float) -> bool:
    """Tell whether a share still holds at `wall`, in seconds since 1970."""
    return until is None or wall < until.timestamp()
