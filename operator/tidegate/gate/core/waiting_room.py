"""Where requests wait for a pod: who comes in, who is next, who has waited too long."""

from collections.abc import Callable

from tidegate.api.gate_config import Limits
from tidegate.gate.core import outlook
from tidegate.gate.core.demand import Demand
from tidegate.gate.core.fair_share import FairShare
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.placement import Place, Placement
from tidegate.gate.core.queue import Queue
from tidegate.gate.core.served import Served
from tidegate.gate.core.turnaway import Turnaway
from tidegate.gate.exchange import Why

LOOK = 4
"""Waiting requests that are tried at each event: the first may need more room than the next."""
KINDS = 8
"""Kinds beside theirs of which the first is tried as well: what is small may fit where they do not.

Nobody passes one of his own kind that was not tried; so who is passed does not fit.
"""

Take = Callable[[Demand, Place, float], None]


class WaitingRoom:
    """The queue and its rules; `take` seats a request."""

    def __init__(
        self,
        queue: Queue,
        placement: Placement,
        objectives: Objectives,
        shares: FairShare,
        turnaway: Turnaway,
        take: Take,
    ) -> None:
        self._queue = queue
        self._placement = placement
        self._objectives = objectives
        self._shares = shares
        self._turnaway = turnaway
        self._take = take
        self._limits = Limits()
        self._served = Served()
        self._is_dispatching = False
        self._may_seat_more = False

    def configure(self, limits: Limits) -> None:
        """Take the bounds of the queue."""
        self._limits = limits

    def enter(self, demand: Demand, now: float) -> None:
        """Seat a request, or let it wait if it would still be in time, or turn it away."""
        self._served.asked(demand)
        demand.kind = self._placement.kind(demand)
        place = self._place_now(demand, now)
        if isinstance(place, Place):
            self._shares.tag(demand)
            self._seat(demand, place, now)
            return
        why = place
        allowed = self._allowed_seconds(demand, why)
        if allowed is None:
            demand.decided(self._turnaway.contended(demand, why, now))
        elif self._make_room(demand, now):
            demand.deadline = now + allowed
            demand.waits(self._left)
            self._shares.tag(demand)
            self._queue.push(demand)
            if self._is_dispatching or demand in self._queue.first(LOOK, KINDS):
                self.dispatch(now)  # all others that are tried were, and nothing has come free
        else:
            full = Why.QUEUE_FULL if self._limits.max_queue else why
            demand.decided(self._turnaway.contended(demand, full, now))

    def dispatch(self, now: float) -> None:
        """Seat whoever waits and has room now.

        Those who are told may come back in here: then the loop goes round once more.
        """
        self._may_seat_more = True
        if self._is_dispatching or not self._queue:
            return
        self._is_dispatching = True
        try:
            while self._may_seat_more and self._queue:
                self._may_seat_more = False
                self._seat_first(now)
        finally:
            self._is_dispatching = False

    def tick(self, now: float) -> None:
        """See who falls short; turn away those who have waited too long."""
        self._served.tick()
        for demand in self._queue.expired(now):
            self._drop(demand, Why.QUEUE_TIMEOUT, now)

    def _place_now(self, demand: Demand, now: float) -> Place | Why:
        """Find a place for one who has just come, past those who wait and do not fit.

        Who takes no room takes none from them.
        """
        if not self._queue or not demand.sequences:
            return self._placement.find(demand, now)
        if self._is_dispatching:  # it is not known yet that they do not fit
            return Why.KV_BUDGET
        priority = demand.ask.caller.priority
        tried = self._queue.first(LOOK, KINDS)
        ahead = [d for d in tried if d.ask.caller.priority >= priority]
        alike = [earlier for earlier in ahead if earlier.kind == demand.kind]
        if self._queue.alike(demand.kind, priority) > len(alike):
            return alike[0].why if alike else Why.KV_BUDGET  # it has its turn after them
        ahead = ahead[:LOOK]
        barred: set[str] = set()
        for earlier in ahead:
            self._keep_for(earlier, barred, now)
        place = self._placement.find(demand, now, barred)
        if isinstance(place, Place):
            for earlier in ahead:
                earlier.overtaken_tokens += demand.cost_tokens
        return place

    def _keep_for(self, demand: Demand, barred: set[str], now: float) -> None:
        """Keep the pod with the most room for one that has been overtaken enough.

        It may be overtaken by as many tokens as it asks for itself. So a long prompt waits its
        turn, not for ever.
        """
        if not demand.is_due:
            return
        kept = self._placement.roomiest(barred, now)
        if kept is not None:
            barred.add(kept)

    def _allowed_seconds(self, demand: Demand, why: Why) -> float | None:
        """Return how long a request may wait; None when it would wait longer than that.

        Who has to leave room for others does not wait: what comes free is theirs.
        """
        if demand.spare_prompt_tokens or demand.spare_output_tokens:
            return None
        answer, prompt = self._placement.books_for(demand.ask)
        allowed = outlook.may_wait_seconds(
            demand, prompt, self._objectives, self._limits.queue_timeout
        )
        caller = demand.ask.caller
        ahead = self._queue.ahead(caller.priority, caller.tenant)
        wait = outlook.wait_seconds(why, demand, ahead, answer, prompt)
        return None if wait > allowed else allowed

    def _make_room(self, demand: Demand, now: float) -> bool:
        """Tell whether one more may wait; the newest of a lower class makes place for it."""
        if len(self._queue) < self._limits.max_queue:
            return True
        weaker = self._queue.newest_below(demand.ask.caller.priority)
        if weaker is None:
            return False
        self._drop(weaker, Why.QUEUE_FULL, now)
        return True

    def _left(self, demand: Demand, now: float) -> None:
        """The client of a waiting request is gone."""
        self._queue.remove(demand)
        self._shares.give_up(demand)
        self.dispatch(now)

    def _drop(self, demand: Demand, why: Why, now: float) -> None:
        self._queue.remove(demand)
        self._shares.give_up(demand)
        demand.decided(self._turnaway.late(demand, why, now))

    def _seat_first(self, now: float) -> None:
        """Try the first few that wait, and the first of each other kind."""
        barred: set[str] = set()
        passed: list[Demand] = []
        for turn, demand in enumerate(self._queue.first(LOOK, KINDS)):
            if demand.is_over:  # its client left while another was told
                continue
            self._served.leave_room(demand)
            place = self._placement.find(demand, now, barred)
            if isinstance(place, Place):
                for earlier in passed:
                    earlier.overtaken_tokens += demand.cost_tokens
                self._queue.remove(demand)
                self._may_seat_more = True
                self._seat(demand, place, now)
                continue
            demand.why = place
            if turn < LOOK:
                passed.append(demand)
                self._keep_for(demand, barred, now)

    def _seat(self, demand: Demand, place: Place, now: float) -> None:
        self._shares.serve(demand)
        self._served.seated(demand)
        self._take(demand, place, now)
