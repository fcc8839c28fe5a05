"""Who goes where and when: the core of the gate, and the only place that changes the ledger."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import cast

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.core import denials, outlook
from tidegate.gate.core.demand import WITHOUT_KV, Demand
from tidegate.gate.core.fair_share import FairShare
from tidegate.gate.core.ledger import Entry, Ledger
from tidegate.gate.core.lengths import Lengths
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.placement import Choosing, Place, Placement
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.core.queue import Queue
from tidegate.gate.core.retry_after import Backlog, Outages
from tidegate.gate.core.retry_budget import RetryBudget
from tidegate.gate.exchange import (
    Ask,
    Decided,
    Outcome,
    Pod,
    Refusal,
    Scrape,
    Seat,
    Shift,
    Ticket,
    Usage,
    View,
    Why,
)

LOOK = 4
"""Waiting requests that are tried at each event: the first may need more room than the next."""
FULL_SECONDS = 0.5
"""How long a pod gets nothing that said it is full."""
FAILURES = frozenset({Outcome.ENGINE_FAILED, Outcome.UNREACHABLE, Outcome.DEADLINE})
"""Outcomes that count against the pod."""


class Admissions:
    """Seats requests on pods by what their KV caches can still hold, and in time.

    `jitter` returns a random number of [0, 1), for Retry-After.
    """

    def __init__(self, *, jitter: Callable[[], float], choice: Choosing) -> None:
        self._choice = choice
        self._config: GateConfig | None = None
        self._ledger = Ledger()
        self._lengths = Lengths()
        self._objectives = Objectives()
        self._placement = Placement(self._ledger, self._choice, self._objectives)
        self._queue = Queue()
        self._shares = FairShare()
        self._backlog = Backlog(jitter)
        self._outages = Outages(jitter)
        self._retries = RetryBudget()
        self._gates = 1
        self._blocked_by = Why.KV_BUDGET
        self._is_dispatching = False
        self._may_seat_more = False

    # What the world says

    def configure(self, config: GateConfig, now: float) -> None:
        """Take a new configuration; what is seated stays seated."""
        self._config = config
        self._objectives.declare(config.slo)
        self._ledger.configure(config)
        self._placement.configure(config)
        self._choice.configure(config, now)
        self._note_outage(now)
        self._dispatch(now)

    def endpoints(self, pool: PoolName, pods: Sequence[Pod], now: float) -> None:
        """Take the ready and terminating pods of a pool, all of them."""
        self._ledger.endpoints(pool, pods)
        self._choice.endpoints(pool, pods, now)
        self._note_outage(now)
        self._dispatch(now)

    def gates(self, count: int) -> None:
        """Share the pods with so many gates, this one included."""
        self._gates = max(1, count)
        self._ledger.share_with(self._gates)

    def observe(self, pod: str, scrape: Scrape) -> None:
        """Take a pod's metrics."""
        self._ledger.observe(pod, scrape)

    def tick(self, now: float, wall: float) -> None:
        """Let those go who waited too long; forget what is old; try again."""
        self._ledger.tick(now)
        self._objectives.settle(self._typical_speed())
        for demand in self._queue.expired(now):
            self._drop(demand, Why.QUEUE_TIMEOUT, now)
        self._shares.prune()
        self._note_outage(now)
        self._dispatch(now)

    def _typical_speed(self) -> float | None:
        """Return the median speed of prefill of the pods that prefill."""
        speeds = sorted(s for book in self._books()[1] if (s := book.prefill.per_second))
        return speeds[len(speeds) // 2] if speeds else None

    def _note_outage(self, now: float) -> None:
        if self._config is not None:
            self._outages.note(is_up=self._placement.missing() is None, now=now)

    # Asking

    def ask(self, ask: Ask, now: float, wall: float, decided: Decided) -> Ticket:
        """Ask for a seat; `decided` is called once, within this call or from a later one."""
        demand = Demand(ask, self._lengths.expected(ask), now, decided)
        config = self._config
        if config is None:
            decided(denials.unavailable(Why.NO_CONFIGURATION, self._outages.seconds(now)))
            return demand
        self._retries.asked(now)
        answer = self._before_the_queue(demand, config, now, wall)
        if answer is not None:
            decided(answer)
            return demand
        why = self._blocked_by
        if not self._queue:
            place = self._placement.find(demand, now)
            if isinstance(place, Place):
                self._shares.tag(demand)
                self._seat(demand, place, now)
                return demand
            why = place
        self._wait(demand, why, config, now)
        return demand

    def _before_the_queue(
        self, demand: Demand, config: GateConfig, now: float, wall: float
    ) -> Refusal | Shift | None:
        share = self._choice.share(demand.ask, config, wall)
        if isinstance(share, Shift):
            return share
        if share is Why.SHED:
            reason = config.shed.reason if config.shed else ""
            return self._refuse(demand, Why.SHED, now, reason)
        missing = self._placement.missing()
        if missing is not None:
            return denials.unavailable(missing, self._outages.seconds(now))
        return self._too_long(demand) or self._over_tenant_limit(demand, config, now)

    def _too_long(self, demand: Demand) -> Refusal | None:
        """Refuse what no empty pod could hold: its prompts, and one token of each answer."""
        ask = demand.ask
        if ask.surface in WITHOUT_KV:
            return None
        pool = self._placement.pools[0]
        largest: tuple[int, int] | None = None
        for blocks, room in self._ledger.largest(pool):
            needed = blocks.of_request(demand.prompt_tokens, 1, ask.samples)
            if needed <= room:
                return None
            if largest is None or room > largest[1]:
                largest = (needed, room)
        if largest is None:
            return None
        return denials.too_long(demand.prompt_tokens, ask.samples, *largest)

    def _over_tenant_limit(self, demand: Demand, config: GateConfig, now: float) -> Refusal | None:
        limit = config.limits.tenant_tokens_in_flight
        if limit is None:
            return None
        held = self._shares.of(demand.ask.caller.tenant).tokens_in_flight
        if not held or held + demand.cost_tokens <= limit / self._gates:
            return None
        return self._refuse(
            demand, Why.TENANT_SHARE, now, f"They hold {held} tokens of {limit // self._gates}."
        )

    # Waiting

    def _wait(self, demand: Demand, why: Why, config: GateConfig, now: float) -> None:
        """Queue a request, if it would still be served in time."""
        queue, caller = self._queue, demand.ask.caller
        answer, prompt = self._books()
        allowed = outlook.may_wait_seconds(
            demand, prompt, self._objectives, config.limits.queue_timeout
        )
        ahead = queue.ahead(caller.priority, caller.tenant)
        if outlook.wait_seconds(why, demand, ahead, answer, prompt) > allowed:
            demand.decided(self._refuse(demand, why, now))
            return
        if len(queue) >= config.limits.max_queue:
            weaker = queue.newest_below(caller.priority)
            if weaker is None:
                full = Why.QUEUE_FULL if config.limits.max_queue else why
                demand.decided(self._refuse(demand, full, now))
                return
            self._drop(weaker, Why.QUEUE_FULL, now)
        demand.deadline = now + allowed
        demand.waits(self._left)
        self._shares.tag(demand)
        queue.push(demand)
        self._dispatch(now)

    def _left(self, demand: Demand, now: float) -> None:
        """The client of a waiting request is gone."""
        self._queue.remove(demand)
        self._shares.give_up(demand)
        self._dispatch(now)

    def _drop(self, demand: Demand, why: Why, now: float) -> None:
        """Turn a waiting request away."""
        self._queue.remove(demand)
        self._shares.give_up(demand)
        missing = self._placement.missing()
        if missing is not None:
            demand.decided(denials.unavailable(missing, self._outages.seconds(now)))
        else:
            demand.decided(self._refuse(demand, why, now))

    def _refuse(self, demand: Demand, why: Why, now: float, detail: str = "") -> Refusal:
        caller = demand.ask.caller
        ahead = self._queue.ahead(caller.priority, caller.tenant)
        drain = outlook.drain_tokens_per_second(self._books()[0])
        seconds = self._backlog.seconds(
            caller.priority, demand.cost_tokens, ahead.tokens, drain, now
        )
        return denials.contended(why, seconds, detail)

    def _books(self) -> tuple[list[PodBook], list[PodBook]]:
        """Return the books of the pods that answer, and of those that prefill."""
        answer_pool, prompt_pool = self._placement.pools
        answer = list(self._ledger.pool(answer_pool))
        if answer_pool == prompt_pool:
            return answer, answer
        return answer, list(self._ledger.pool(prompt_pool)) or answer

    # Seating

    def _dispatch(self, now: float) -> None:
        """Seat whoever waits and has room now.

        Callers of `decided` may come back into this object: then the loop goes round once more.
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

    def _seat_first(self, now: float) -> None:
        """Try the first few that wait.

        One that does not fit may be overtaken by as many tokens as it asks for itself; from then
        on the pod with the most room is kept for it. So a long prompt waits its turn, not for ever.
        """
        barred: set[str] = set()
        passed: list[Demand] = []
        for demand in self._queue.first(LOOK):
            if demand.is_over:
                continue
            place = self._placement.find(demand, now, barred)
            if isinstance(place, Place):
                for earlier in passed:
                    earlier.overtaken_tokens += demand.cost_tokens
                self._queue.remove(demand)
                self._may_seat_more = True
                self._seat(demand, place, now)
                continue
            if not passed:
                self._blocked_by = place
            passed.append(demand)
            if demand.overtaken_tokens >= demand.cost_tokens:
                roomiest = self._roomiest(barred)
                if roomiest is None:
                    return
                barred.add(roomiest)

    def _roomiest(self, barred: set[str]) -> str | None:
        rooms = (
            (book.capacity_blocks - book.reserved_blocks, name)
            for name, book in self._ledger.books.items()
            if book.is_present and name not in barred and book.pod.pool == self._placement.pools[0]
        )
        return max(rooms, default=(0, None))[1]

    def _seat(self, demand: Demand, place: Place, now: float) -> None:
        self._shares.serve(demand)
        demand.decided(self._open(demand, place, now))

    def _open(self, demand: Demand, place: Place, now: float) -> Seat:
        entry = self._ledger.open(demand, place.pod, place.prefill, now)
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
        """The request is on its way: its tokens are reserved since it was admitted."""

    def prefilled(self, seat: Seat, now: float) -> None:
        """A pair's first step returned."""
        entry = _entry(seat)
        if entry.is_open and entry.prefill is not None:
            self._choice.succeeded(entry.prefill.pod.name, now - entry.began_at, now)
            self._ledger.leave_prefill(entry, now)
            self._dispatch(now)

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
        if self._queue:
            self._dispatch(now)

    def produced(self, seat: Seat, tokens: int, now: float) -> None:
        """Some more tokens came."""
        entry = _entry(seat)
        entry.made_tokens += tokens
        if entry.made_tokens >= entry.look_at and entry.is_open:
            before = entry.tokens
            self._ledger.look(entry, now)
            if entry.tokens != before:
                tenant = self._shares.of(seat.ask.caller.tenant)
                tenant.tokens_in_flight += entry.tokens - before

    def ended(self, seat: Seat, outcome: Outcome, usage: Usage | None, now: float) -> None:
        """The visit is over; a second call does nothing."""
        entry = _entry(seat)
        if not entry.is_open:
            return
        if outcome is Outcome.FINISHED:
            self._learn(seat, entry, usage, now)
        elif outcome is Outcome.ENGINE_FULL:
            entry.pod.full_until = now + FULL_SECONDS
        elif outcome in FAILURES:
            self._choice.failed(seat.pod.name, now)
        self._close(entry, now, is_complete=outcome is Outcome.FINISHED)
        if self._queue:
            self._dispatch(now)

    def _close(self, entry: Entry, now: float, *, is_complete: bool) -> None:
        account = self._shares.of(entry.demand.ask.caller.tenant)
        account.tokens_in_flight -= entry.tokens
        self._ledger.close(entry, now, is_complete=is_complete)

    def _learn(self, seat: Seat, entry: Entry, usage: Usage | None, now: float) -> None:
        ask = seat.ask
        made = usage.output_tokens if usage else entry.made_tokens
        if made:
            self._lengths.learn(ask, made / ask.samples)
        ttft = entry.first_at - entry.began_at if ask.streams and entry.has_token else None
        self._choice.succeeded(seat.pod.name, ttft, now)
        if ttft is not None and made > 1 and entry.was_idle and entry.pod.visits == 1:
            seconds = (now - entry.first_at) * ask.samples / (made - 1)
            self._objectives.unloaded_tpot(seconds)

    # A second try

    def again(self, seat: Seat, failed: Pod, outcome: Outcome, now: float) -> Seat | Refusal:
        """Give a seat elsewhere after a failure before the first byte, within the retry budget."""
        old = _entry(seat)
        if not old.is_open:
            return denials.failed("The request had ended.")
        old_prefill = old.prefill
        failed_book = self._ledger.books.get(failed.name)
        if outcome is Outcome.ENGINE_FULL and failed_book is not None:
            failed_book.full_until = now + FULL_SECONDS
        elif outcome in FAILURES:
            self._choice.failed(failed.name, now)
        self._close(old, now, is_complete=False)
        barred = old.failed | {failed.name}
        if not self._retries.take(now):
            return self._no_second_try(old.demand, outcome, now, "Too many are sent again already.")
        demand = old.demand
        demand.asked_at = now
        is_prefill = seat.prefill is not None and failed.name == seat.prefill.name
        place = (
            self._other_prefill(demand, old, seat, barred, now)
            if is_prefill and old_prefill is not None
            else self._placement.find(demand, now, barred)
        )
        if not isinstance(place, Place):
            return self._no_second_try(demand, outcome, now, "No other pod has room.", place)
        fresh = self._open(demand, place, now)
        fresh.asked_at = seat.asked_at
        _entry(fresh).failed = barred
        return fresh

    def _other_prefill(
        self, demand: Demand, old: Entry, seat: Seat, barred: frozenset[str], now: float
    ) -> Place | Why:
        """Keep the decode pod, take another prefill pod; after that none, if decode may."""
        if not old.failed:
            prefill = self._placement.prefill_of(demand, seat.pod.revision, now, barred)
            if isinstance(prefill, PodBook):
                return Place(old.pod, prefill)
        config = self._config
        if config is not None and config.decode_may_prefill:
            return Place(old.pod)
        return Why.NO_PREFILL

    def _no_second_try(
        self, demand: Demand, outcome: Outcome, now: float, detail: str, why: Why | None = None
    ) -> Refusal:
        if why is Why.NO_PREFILL or self._placement.missing() is not None:
            missing = self._placement.missing() or Why.NO_PREFILL
            return denials.unavailable(missing, self._outages.seconds(now))
        if outcome is Outcome.ENGINE_FULL:
            return self._refuse(demand, Why.KV_BUDGET, now)
        return denials.failed(detail)

    # What is shown

    def view(self, now: float, wall: float) -> View:
        """Show the pods, the queue and the shares."""
        config = self._config
        shed = config.shed if config else None
        shift = config.shift if config else None
        return View(
            pods=[
                book.view(self._choice.is_ejected(name, now), now)
                for name, book in self._ledger.books.items()
            ],
            queued=len(self._queue),
            queued_by_priority=self._queue.by_priority(),
            shed_percent=shed.percent if shed and _is_valid(shed.until, wall) else 0.0,
            shift_percent=shift.percent if shift and _is_valid(shift.until, wall) else 0.0,
        )


def _entry(seat: Seat) -> Entry:
    return cast(Entry, seat.book)


def _is_valid(until: datetime | None, wall: float) -> bool:
    return until is None or wall < until.timestamp()
