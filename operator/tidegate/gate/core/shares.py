"""Shares of the requests, exact: which are shed, which are shifted, which revision serves.

Chance would give 200 of 1,000 within 25. Here a debt grows by the share with each request and
shrinks by one with each that is taken, and it stays within bounds. A client that tries again
under the same id gets the same answer, as long as that keeps the debt within them.
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
_MOST_AHEAD = 5
"""Requests that a revision may be ahead for the sake of ids that come again."""

_Lot = TypeVar("_Lot")


class Percentage:
    """Takes a percentage of the requests, those of the lowest class first."""

    def __init__(self) -> None:
        self._debt = _START
        self._drawn: _Drawn[bool] = _Drawn()

    def takes(self, ask: Ask, percent: float) -> bool:
        """Draw for a request; asked again about the same one, the answer is the same."""
        if not percent:
            return False
        if self._drawn.is_of(ask):
            return self._drawn.lot(ask) is True
        return self._draw(ask, self._debt + round(percent * _ONE / 100), percent)

    def passes(self, ask: Ask, percent: float) -> None:
        """Count a request that something else has taken."""
        if not self._drawn.is_of(ask):
            self._debt = min(self._debt + round(percent * _ONE / 100), _MOST)
            self._drawn.keep(ask, False)

    def _draw(self, ask: Ask, debt: int, percent: float) -> bool:
        taken = debt >= _ONE + ask.caller.priority * _STEP or percent >= 100
        before = self._drawn.lot(ask)
        if before is not None and 0 <= (debt - _ONE if before else debt) <= _MOST:
            taken = before or percent >= 100
        self._debt = min(max(0, debt - _ONE if taken else debt), _MOST)
        self._drawn.keep(ask, taken)
        return taken


class Weights:
    """Chooses among names by their weights: smooth weighted round robin."""

    def __init__(self) -> None:
        self._credits: dict[str, int] = {}
        self._drawn: _Drawn[str] = _Drawn()

    def order(self, ask: Ask, weights: Mapping[str, int]) -> list[str]:
        """Return the names with the chosen one first, then by weight."""
        if len(weights) < 2:
            return list(weights)
        first = self._first(ask, weights)
        return sorted(weights, key=lambda name: (name != first, -weights[name]))

    def _first(self, ask: Ask, weights: Mapping[str, int]) -> str:
        before = self._drawn.lot(ask) or ""
        if before in weights and self._drawn.is_of(ask):
            return before
        total = sum(weights.values())
        held = self._credits
        credits = {name: held.get(name, 0) + weight for name, weight in weights.items()}
        self._credits = credits
        chosen = max(credits, key=credits.__getitem__)
        if before in weights and credits[before] > -_MOST_AHEAD * total:
            chosen = before
        credits[chosen] -= total
        self._drawn.keep(ask, chosen)
        return chosen


class _Drawn(Generic[_Lot]):
    """What late requests drew, by their ids; a bounded number of them."""

    def __init__(self) -> None:
        self._lots: dict[str, tuple[int, _Lot]] = {}

    def lot(self, ask: Ask) -> _Lot | None:
        """Return what the last request with this id drew."""
        held = self._lots.get(ask.request_id)
        return held[1] if held else None

    def is_of(self, ask: Ask) -> bool:
        """Tell whether it was this very request."""
        held = self._lots.get(ask.request_id)
        return held is not None and held[0] == ask.serial

    def keep(self, ask: Ask, lot: _Lot) -> None:
        """Remember a lot, and forget the oldest beyond the bound."""
        self._lots.pop(ask.request_id, None)
        self._lots[ask.request_id] = (ask.serial, lot)
        if len(self._lots) > _REMEMBERED:
            del self._lots[next(iter(self._lots))]


def is_valid(until: datetime | None, wall: float) -> bool:
    """Tell whether a share still holds at `wall`, in seconds since 1970."""
    return until is None or wall < until.timestamp()
