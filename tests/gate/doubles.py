"""Doubles of what the wire talks to, which keep count of what must come out even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.core import surfaces
from tidegate.gate.exchange import (
    Ask,
    Decided,
    Outcome,
    Pod,
    Refusal,
    Scrape,
    Seat,
    Shift,
    Usage,
    View,
    Why,
)
from tidegate.gate.wire.observer import Finished

Answer = Refusal | Shift
EXHAUSTED = Refusal(502, Why.ENGINE_ERROR, "every pod failed", "api_error")


@dataclass
class Waiting:
    seats: Seats
    decided: Decided
    ask: Ask
    has_left: bool = False

    def leave(self, now: float) -> None:
        self.has_left = True
        if self in self.seats.waiting:
            self.seats.waiting.remove(self)


@dataclass
class Seats:
    """An `Admissions` that seats everyone on the pods in turn, and counts seats.

    `says` are refusals and shifts for the next requests; while `is_full`, requests wait.
    """

    pods: list[Pod] = field(default_factory=list)
    prefill: list[Pod] = field(default_factory=list)
    says: list[Answer] = field(default_factory=list)
    is_full: bool = False
    waiting: list[Waiting] = field(default_factory=list)
    open: list[Seat] = field(default_factory=list)
    given: int = 0
    ends: list[tuple[Pod, Outcome, Usage | None]] = field(default_factory=list)
    failures: list[tuple[Pod, Outcome]] = field(default_factory=list)
    tokens: int = 0
    first_tokens: int = 0
    prefills: int = 0

    def ask(self, ask: Ask, now: float, wall: float, decided: Decided) -> Waiting:
        waiting = Waiting(self, decided, ask)
        if self.says and not (ask.shifted and isinstance(self.says[0], Shift)):
            decided(self.says.pop(0))
        elif self.is_full:
            self.waiting.append(waiting)
        else:
            decided(self._seat(ask, now))
        return waiting

    def make_room(self) -> None:
        """Seat everyone who waits."""
        self.is_full = False
        while self.waiting:
            waiting = self.waiting.pop(0)
            waiting.decided(self._seat(waiting.ask, 0.0))

    def _seat(self, ask: Ask, now: float, but: Sequence[str] = ()) -> Seat:
        pod = next(pod for pod in self.pods if pod.name not in but)
        prefills = self.prefill if surfaces.can_split(ask) else []
        prefill = next((pod for pod in prefills if pod.name not in but), None)
        seat = Seat(ask, pod, prefill, now, now, book=tuple(but))
        self.open.append(seat)
        self.given += 1
        return seat

    def again(self, seat: Seat, failed: Pod, outcome: Outcome, now: float) -> Seat | Refusal:
        self.failures.append((failed, outcome))
        self.ended(seat, outcome, None, now)
        but = (*(seat.book if isinstance(seat.book, tuple) else ()), failed.name)
        if all(pod.name in but for pod in self.pods):
            return EXHAUSTED
        return self._seat(seat.ask, now, but)

    def sent(self, seat: Seat, now: float) -> None:
        assert seat in self.open

    def prefilled(self, seat: Seat, now: float) -> None:
        assert seat in self.open
        self.prefills += 1

    def first_token(self, seat: Seat, now: float) -> None:
        assert seat in self.open
        self.first_tokens += 1

    def produced(self, seat: Seat, tokens: int, now: float) -> None:
        assert seat in self.open
        assert tokens > 0
        self.tokens += tokens

    def ended(self, seat: Seat, outcome: Outcome, usage: Usage | None, now: float) -> None:
        if seat in self.open:
            self.open.remove(seat)
            self.ends.append((seat.pod, outcome, usage))

    def tick(self, now: float, wall: float) -> None:
        """Nothing lapses here."""

    def configure(self, config: GateConfig, now: float) -> None:
        """Nothing depends on it here."""

    def endpoints(self, pool: PoolName, pods: Sequence[Pod], now: float) -> None:
        """The pods are given."""

    def gates(self, count: int) -> None:
        """Nothing is shared here."""

    def observe(self, pod: str, scrape: Scrape) -> None:
        """Nothing is measured here."""

    def view(self, now: float, wall: float) -> View:
        return View([], len(self.waiting), {}, {}, 0.0, 0.0)


@dataclass
class Told:
    """An observer that remembers."""

    finished_requests: list[Finished] = field(default_factory=list)
    open_connections: int = 0
    admissions: int = 0
    first_tokens: int = 0
    tokens: int = 0
    prefills: int = 0
    transfers: int = 0
    retries: list[tuple[str, Outcome]] = field(default_factory=list)
    visits: list[tuple[str, Outcome, bool, bool]] = field(default_factory=list)
    """Pod, outcome, whether it was the first, and whether it gave a first byte."""
    first_token_revisions: list[str] = field(default_factory=list)

    def connections(self, count: int) -> None:
        self.open_connections = count

    def admitted(self, ask: Ask, pod: Pod, waited_seconds: float) -> None:
        self.admissions += 1

    def first_token(self, ask: Ask, revision: str, seconds: float) -> None:
        self.first_tokens += 1
        self.first_token_revisions.append(revision)

    def pace(self, ask: Ask, pod: Pod, tokens: int, seconds: float) -> None:
        self.tokens += tokens

    def prefilled(self, prefill: Pod, seconds: float) -> None:
        self.prefills += 1

    def transferred(self, decode: Pod, seconds: float) -> None:
        self.transfers += 1

    def retried(self, pod: Pod, outcome: Outcome) -> None:
        self.retries.append((pod.name, outcome))

    def visited(self, pod: Pod, outcome: Outcome, *, is_first: bool, is_answered: bool) -> None:
        self.visits.append((pod.name, outcome, is_first, is_answered))

    def finished(self, request: Finished) -> None:
        self.finished_requests.append(request)

    @property
    def last(self) -> Finished:
        return self.finished_requests[-1]
