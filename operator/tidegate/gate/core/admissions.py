"""Who goes where and when: the core of the gate, and the only place that changes the ledger."""

from collections.abc import Callable, Sequence
from typing import cast

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.core import denials, showing
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.demand import Demand
from tidegate.gate.core.entry import Entry
from tidegate.gate.core.fair_share import FairShare
from tidegate.gate.core.gate_share import GateShare
from tidegate.gate.core.ledger import Ledger
from tidegate.gate.core.lengths import Lengths
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.placement import Place, Placement
from tidegate.gate.core.queue import Queue
from tidegate.gate.core.retry_budget import RetryBudget
from tidegate.gate.core.screening import Screening
from tidegate.gate.core.second_try import SecondTry
from tidegate.gate.core.transfers import Transfers
from tidegate.gate.core.turnaway import Turnaway
from tidegate.gate.core.waiting_room import WaitingRoom
from tidegate.gate.exchange import (
    Ask,
    Decided,
    Outcome,
    Pod,
    Refusal,
    Scrape,
    Seat,
    Ticket,
    Usage,
    View,
    Why,
)

FULL_SECONDS = 0.5
"""How long a pod gets nothing that said it is full."""
FAILURES = frozenset({Outcome.ENGINE_FAILED, Outcome.UNREACHABLE, Outcome.DEADLINE})
"""Outcomes that count against the pod."""


class Admissions:
    """Seats requests on pods by what their KV caches can still hold, and in time.

    `jitter` returns a random number of [0, 1), for Retry-After; `joins` is for a gate that starts
    while others may be serving.
    """

    def __init__(self, *, jitter: Callable[[], float], choice: Choice, joins: bool = False) -> None:
        self._choice = choice
        self._config: GateConfig | None = None
        self._gates = 1
        self._lengths = Lengths()
        self._ledger = Ledger(self._lengths, GateShare(joins=joins))
        self._objectives = Objectives()
        self._shares = FairShare()
        self._retries = RetryBudget()
        self._transfers = Transfers()
        self._placement = Placement(self._ledger, choice, self._objectives, self._transfers)
        self._queue = Queue()
        self._turnaway = Turnaway(self._placement, self._queue, jitter)
        self._screening = Screening(
            choice, self._placement, self._ledger, self._shares, self._queue, self._turnaway
        )
        self._room = WaitingRoom(
            self._queue,
            self._placement,
            self._objectives,
            self._shares,
            self._turnaway,
            self._take,
        )
        self._second_try = SecondTry(self._placement, self._retries, self._turnaway)

    # What the world says

    def configure(self, config: GateConfig, now: float) -> None:
        """Take a new configuration; what is seated stays seated."""
        self._config = config
        self._objectives.declare(config.slo)
        self._ledger.configure(config)
        self._placement.configure(config)
        self._room.configure(config.limits)
        self._choice.configure(config, now)
        self._turnaway.note(now)
        self._room.dispatch(now)

    def endpoints(self, pool: PoolName, pods: Sequence[Pod], now: float) -> None:
        """Take the ready and terminating pods of a pool, all of them."""
        self._ledger.endpoints(pool, pods)
        self._transfers.present(self._ledger.books)
        self._choice.endpoints(pool, pods, now)
        if self._config is not None:
            self._turnaway.note(now)
            self._room.dispatch(now)

    def gates(self, count: int) -> None:
        """Share the pods with so many gates, this one included."""
        self._gates = max(1, count)
        self._ledger.share_with(self._gates)

    def observe(self, pod: str, scrape: Scrape) -> None:
        """Take a pod's metrics."""
        self._ledger.observe(pod, scrape)
        self._choice.observe(pod, scrape)

    def tick(self, now: float, wall: float) -> None:
        """Let those go who waited too long, forget what is old, and try again."""
        if self._config is None:
            return
        self._ledger.tick(now)
        self._objectives.settle(self._placement.prefill_tokens_per_second())
        self._room.tick(now)
        self._shares.prune()
        self._turnaway.note(now)
        self._room.dispatch(now)

    # Asking

    def ask(self, ask: Ask, now: float, wall: float, decided: Decided) -> Ticket:
        """Ask for a seat; `decided` is called once, within this call or from a later one."""
        demand = Demand(ask, self._lengths.expected(ask), now, decided)
        config = self._config
        if config is None:
            decided(self._turnaway.unavailable(Why.NO_CONFIGURATION, now))
            return demand
        self._retries.asked(now)
        answer = self._screening.screen(demand, config, self._gates, now, wall)
        if answer is not None:
            decided(answer)
        else:
            self._room.enter(demand, now)
        return demand

    def _take(self, demand: Demand, place: Place, now: float) -> None:
        demand.decided(self._open(demand, place, now))

    def _open(self, demand: Demand, place: Place, now: float) -> Seat:
        entry = self._ledger.open(demand, place.pod, place.prefill, now)
        if place.prefill is not None:
            self._transfers.began(place.prefill, place.pod, now)
        self._shares.of(demand.ask.caller.tenant).tokens_in_flight += entry.tokens
        return Seat(
            ask=demand.ask,
            pod=place.pod.pod,
            prefill=place.prefill.pod if place.prefill else None,
            asked_at=demand.asked_at,
            admitted_at=now,
            book=entry,
        )

    # What happens to a seat

    def sent(self, seat: Seat, now: float) -> None:
        """The request is on its way; its tokens are reserved since it was admitted."""

    def prefilled(self, seat: Seat, now: float) -> None:
        """A pair's first step returned: the prefill pod's tokens are free."""
        entry = _entry(seat)
        if entry.is_open and entry.prefill is not None:
            entry.prefilled_by = entry.prefill.pod.name
            self._choice.succeeded(entry.prefilled_by, now - entry.began_at, now)
            self._ledger.leave_prefill(entry, now)
            self._room.dispatch(now)

    def first_token(self, seat: Seat, now: float) -> None:
        """The first byte of the answer's body came."""
        entry = _entry(seat)
        if not entry.is_open or entry.has_token:
            return
        self._ledger.first_token(entry, now)
        if seat.ask.streams:
            self._objectives.first_token(
                entry.demand.prompt_tokens,
                now - entry.began_at,
                entry.began_at - seat.asked_at,
                was_idle=entry.was_idle,
            )
        self._room.dispatch(now)

    def produced(self, seat: Seat, tokens: int, now: float) -> None:
        """Some more tokens came."""
        entry = _entry(seat)
        entry.made_tokens += tokens
        if entry.made_tokens < entry.look_at or not entry.is_open:
            return
        self._transfers.came(entry)
        before = entry.tokens
        self._ledger.look(entry, now)
        if entry.tokens != before:
            account = self._shares.of(seat.ask.caller.tenant)
            account.tokens_in_flight += entry.tokens - before

    def ended(self, seat: Seat, outcome: Outcome, usage: Usage | None, now: float) -> None:
        """The visit is over, by any way; a second call does nothing."""
        entry = _entry(seat)
        if not entry.is_open:
            return
        if outcome is Outcome.FINISHED:
            self._transfers.came(entry)
            self._learn(seat, entry, usage, now)
        else:
            if not entry.has_token:
                self._transfers.lost(entry, outcome, now)
            self._blame(entry.works_on_it.pod, outcome, now)
        self._close(entry, now, is_complete=outcome is Outcome.FINISHED)
        self._room.dispatch(now)

    def _close(self, entry: Entry, now: float, *, is_complete: bool) -> None:
        account = self._shares.of(entry.demand.ask.caller.tenant)
        account.tokens_in_flight -= entry.tokens
        account.stay.add(now - entry.began_at, entry.tokens)
        self._ledger.close(entry, now, is_complete=is_complete)

    def _blame(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Leave a pod alone that is full; count a failure against one that failed."""
        book = self._ledger.books.get(pod.name)
        if outcome is Outcome.ENGINE_FULL and book is not None:
            book.full_until = now + FULL_SECONDS
        elif outcome in FAILURES:
            is_unreachable = outcome is Outcome.UNREACHABLE
            self._choice.failed(pod.name, now, unreachable=is_unreachable)

    def _learn(self, seat: Seat, entry: Entry, usage: Usage | None, now: float) -> None:
        ask = seat.ask
        made = usage.output_tokens if usage else entry.made_tokens
        if made:
            self._lengths.learn(ask, made / ask.samples)
        is_timed = ask.streams and entry.has_token
        ttft = entry.first_at - entry.began_at if is_timed else None
        self._choice.succeeded(seat.pod.name, ttft, now)
        if is_timed and made > ask.samples and entry.was_idle and entry.pod.visits == 1:
            seconds = (now - entry.first_at) / (made / ask.samples - 1)
            self._objectives.unloaded_tpot(seconds)

    def again(self, seat: Seat, failed: Pod, outcome: Outcome, now: float) -> Seat | Refusal:
        """Give a seat after a failure before the first byte, within the retry budget.

        Elsewhere; after a lost transfer, for which nobody is blamed, on the decode pod alone. The
        old seat is ended by this call.
        """
        entry = _entry(seat)
        if not entry.is_open:
            return denials.failed("Its visit had ended.")
        step_one_failed = entry.prefill is not None and failed.name == entry.prefill.pod.name
        is_lost = self._transfers.lost(entry, outcome, now) and self._placement.may_skip_prefill
        blamed = None if is_lost else failed.name
        if blamed is not None:
            self._blame(failed, outcome, now)
        self._close(entry, now, is_complete=False)
        found = self._second_try.find(entry, blamed, outcome, now, step_one_failed=step_one_failed)
        if isinstance(found, Refusal):
            self._room.dispatch(now)
            return found
        fresh = self._open(entry.demand, found, now)
        fresh.asked_at = seat.asked_at
        _entry(fresh).failed = entry.failed | ({blamed} if blamed else frozenset())
        self._room.dispatch(now)
        return fresh

    # What is shown

    def view(self, now: float, wall: float) -> View:
        """Show the pods, the queue and the shares."""
        pods = [
            book.view(self._choice.is_ejected(name, now), now)
            for name, book in self._ledger.books.items()
        ]
        return showing.view(self._config, pods, self._queue, wall)


def _entry(seat: Seat) -> Entry:
    return cast(Entry, seat.book)
