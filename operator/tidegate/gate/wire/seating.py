"""Asks the core for a seat, and waits for its word."""

import asyncio

from tidegate.gate.exchange import Ask, Refusal, Seat, Shift, Ticket
from tidegate.gate.wire.record import Record
from tidegate.gate.wire.wiring import Wiring


class Seating:
    """One request's place in the queue.

    A seat is in the record in the same turn in which the core gives it: a client that leaves at
    that moment must not leave the seat behind.
    """

    def __init__(self, wiring: Wiring, record: Record) -> None:
        self._wiring = wiring
        self._record = record
        self._ticket: Ticket | None = None
        self._decision: Seat | Shift | Refusal | None = None
        self._wakes: asyncio.Future[None] | None = None

    async def decide(self, ask: Ask, now: float) -> Seat | Shift | Refusal:
        """Ask, and wait as long as the core lets it wait."""
        self._decision = None
        wiring = self._wiring
        self._ticket = wiring.admissions.ask(ask, now, wiring.wall(), self._decided)
        decision = self._decision
        if decision is None:
            self._wakes = wiring.loop.create_future()
            await self._wakes
            decision = self._decision
        assert decision is not None
        return decision

    def leave(self, now: float) -> None:
        """The request is over: out of the queue, if it is still in it."""
        ticket, self._ticket = self._ticket, None  # it knows this seating
        decision, self._decision = self._decision, None
        if ticket is not None and decision is None:
            ticket.leave(now)

    def _decided(self, decision: Seat | Shift | Refusal) -> None:
        self._decision = decision
        if isinstance(decision, Seat):
            self._record.seat = decision
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)
