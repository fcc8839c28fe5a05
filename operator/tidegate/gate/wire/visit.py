"""One request's course: read, seated, sent, relayed, over.

The only place where the wire waits. Whatever ends the course, the client's leaving included,
`_over` is called once: it closes the pod's connection, ends the seat and tells the observer.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from tidegate.api.gate_config import Deadlines
from tidegate.gate.core import answers, headers
from tidegate.gate.exchange import Ask, Outcome, Pod, Refusal, Seat, Shift, Why
from tidegate.gate.wire import exact_count, pair
from tidegate.gate.wire.answer import CLIENT_GONE, Answer, End, Whole
from tidegate.gate.wire.client import ClientConnection
from tidegate.gate.wire.heads import Asked, Headers, with_ours
from tidegate.gate.wire.patience import Patience, patience
from tidegate.gate.wire.pods import PodConnection
from tidegate.gate.wire.record import Record
from tidegate.gate.wire.relay import Relay
from tidegate.gate.wire.seating import Seating
from tidegate.gate.wire.sending import Exchange
from tidegate.gate.wire.wiring import Wiring

SERVED_BY: Final = b"x-tidegate-served-by"

LARGE_BYTES: Final = 256 * 1024
"""A body from this size on may take over 3 ms to read, for which tokens would have to wait."""
MOST_VISITS: Final = 5
"""Pods that a request is sent to, whatever the retry budget says."""
MOST_FAILED: Final = 2
"""Engines of a pool that may fail under a request: it may be what fails them."""
CONNECT_SECONDS: Final = Deadlines().connect

Kind = TypeVar("Kind", bound=Answer)

_GATE_GONE: Final = End(Outcome.GATE_GONE, Why.DRAINING, "the gate stopped before the end")
_STOPPING: Final = Refusal(
    503,
    Why.DRAINING,
    "The gate stopped before this was served; another may serve it.",
    "service_unavailable_error",
    None,
    1,
)
_log: Final = logging.getLogger(__name__)


class Visit:
    """A request that is whole, and its client."""

    def __init__(
        self, wiring: Wiring, client: ClientConnection, asked: Asked, body: bytes, request_id: str
    ) -> None:
        self._wiring = wiring
        self._client = client
        self._head = asked.head
        self._body = body
        self._id = request_id
        self._record = Record(request_id, asked.head, len(body), wiring.loop.time())
        self._seating = Seating(wiring, self._record)
        self._exchange: Exchange | None = None
        self._failed: Pod | None = None
        self._failures: set[Pod] = set()
        self._second_step_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cut = False

    def start(self) -> "asyncio.Task[None]":
        """Begin; cancel the task when the client leaves."""
        self._task = task = self._wiring.loop.create_task(self._go())
        task.add_done_callback(self._over)
        return task

    def cut(self) -> None:
        """The gate waits no longer: break an answer that has begun, and refuse what has none."""
        answer = self._exchange.answer if self._exchange is not None else None
        if isinstance(answer, Relay) and answer.has_begun:
            answer.cut(_GATE_GONE.outcome, Why.DRAINING, _GATE_GONE.message)
        elif self._task is not None:
            self._is_cut = True
            if answer is not None:
                answer.abort()  # in this turn: it must not begin in the next
            self._task.cancel()

    # The course.

    async def _go(self) -> None:
        ask = await self._read()
        self._body = b""
        if isinstance(ask, Refusal):
            self._refuse(ask)
            return
        if self._wiring.exact is not None and ask.prompt_tokens >= exact_count.LONG_PROMPT_TOKENS:
            ask = await self._wiring.exact.of(ask, self._wiring)
        self._record.ask = ask
        self._exchange = Exchange(self._wiring, ask.request_id, ask.surface.value, ask.headers)
        decision = await self._decide(ask)
        if isinstance(decision, Shift):
            if await self._shift(ask, decision):
                return
            decision = await self._decide(replace(ask, shifted=True))
        while isinstance(decision, Seat):
            end = await self._visit(ask, decision)
            if isinstance(end, Refusal):  # before it was sent anywhere
                self._record.end, decision = None, end
                break
            self._record.end = end
            self._visited(end.outcome)
            if end.has_begun:
                return
            decision = self._after(decision, end)
        if isinstance(decision, Shift):
            decision = _failed(503, Why.SHIFT_LOOP, "no deployment takes this request")
        self._refuse(decision)

    async def _read(self) -> Ask | Refusal:
        reader = self._wiring.reader
        if len(self._body) < LARGE_BYTES:
            return reader.read(self._head, self._body, self._id)
        reading = reader.reading(self._head, self._id)
        if isinstance(reading, Ask | Refusal):
            return reading
        return await self._wiring.read_large(reading, self._body)

    async def _decide(self, ask: Ask) -> Seat | Shift | Refusal:
        """Ask for a seat and wait for the word."""
        asked_at = self._wiring.loop.time()
        decision = await self._seating.decide(ask, asked_at)
        if isinstance(decision, Seat):
            self._record.queued_seconds = waited_seconds = self._wiring.loop.time() - asked_at
            self._wiring.observer.admitted(ask, decision.pod, waited_seconds)
        return decision

    def _after(self, seat: Seat, end: End) -> Seat | Refusal:
        """Say what follows a visit of which the client has seen nothing."""
        failed = self._failed or seat.pod
        if end.outcome is Outcome.ENGINE_FAILED:
            self._failures.add(failed)
        pools = 1 if seat.prefill is None else 2
        is_enough = len(self._failures) >= pools * MOST_FAILED or self._record.visits >= MOST_VISITS
        is_late = end.outcome in (Outcome.DEADLINE, Outcome.TOTAL_DEADLINE)
        if is_late or is_enough:
            return _failed(504 if is_late else 502, end.why, end.message)
        again = self._wiring.admissions.again(seat, failed, end.outcome, self._wiring.loop.time())
        if isinstance(again, Seat):
            self._record.seat = again
            self._wiring.observer.retried(failed, end.outcome)
        return again

    async def _visit(self, ask: Ask, seat: Seat) -> End | Refusal:
        """Send a request to its pod, or in two steps to its pair."""
        self._second_step_at = None
        self._failed = seat.pod
        self._wiring.admissions.sent(seat, self._wiring.loop.time())
        if seat.prefill is None:
            self._record.begin_visit(seat.pod)
            return await self._relay(ask, seat.pod, ask.body)
        self._failed = seat.prefill
        first = await self._first_body(ask)
        if isinstance(first, Refusal):
            return first
        self._record.begin_visit(seat.pod)
        body = await self._prefill(ask, first, seat.prefill)
        if isinstance(body, End):
            return body
        self._failed = seat.pod
        self._second_step_at = now = self._wiring.loop.time()
        self._wiring.admissions.prefilled(seat, now)
        return await self._relay(ask, seat.pod, body)

    async def _first_body(self, ask: Ask) -> bytes | Refusal:
        """Make the body of a pair's first step; a large one where it stops nobody."""
        if len(ask.body) < LARGE_BYTES:
            return pair.first_body(ask.body)
        step = pair.FirstStep(replace(ask, body=b""))
        first = await self._wiring.read_large(step, ask.body)
        return first if isinstance(first, Refusal) else first.body

    async def _prefill(self, ask: Ask, first: bytes, prefill: Pod) -> bytes | End:
        """Do a pair's first step; returns the second's body, or how the first failed."""
        wiring = self._wiring
        sent_at = wiring.loop.time()
        patience = self._patience(ask)
        end, answer = await self._send(
            prefill,
            first,
            lambda to: Whole(to, wiring.sweep, wiring.loop, patience),
        )
        if answer is None or end.outcome is not Outcome.FINISHED:
            if answer and answer.answered and end.outcome is Outcome.ENGINE_REFUSED:
                told = with_ours(answer.answered.headers, self._extra())
                self._answer(answer.answered.status, told, answer.body)
                return replace(end, has_begun=True)
            return end
        wiring.observer.prefilled(prefill, wiring.loop.time() - sent_at)
        try:
            return pair.second_body(ask.body, answer.body)
        except pair.NoTransfer as error:
            return End(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, str(error))

    async def _relay(self, ask: Ask, pod: Pod, body: bytes) -> End:
        """Send a body to a pod and pass its answer on."""
        end, _ = await self._send(pod, body, lambda to: self._relay_on(to, ask))
        return end

    async def _shift(self, ask: Ask, shift: Shift) -> bool:
        """Let another deployment's gate serve; False when it got nothing of the request."""
        config = self._wiring.config()
        if config is None:
            return False
        passed = headers.for_gate(
            self._head, ask.request_id, f"{config.namespace}/{config.deployment}", ask.caller
        )
        exchange = Exchange(self._wiring, ask.request_id, ask.surface.value, passed)
        own, self._exchange = self._exchange, exchange
        served_by = ((SERVED_BY, shift.to.encode()),)
        end, _ = await exchange.send(
            self._wiring.resolve(shift.to, shift.port),
            ask.body,
            config.deadlines.connect,
            lambda over: self._relay_on(over, ask, served_by, passes_all=True),
        )
        if end.outcome is Outcome.UNREACHABLE:
            self._exchange = own
            return False
        self._record.end, self._record.shifted_to = end, shift.to
        if not end.has_begun:
            self._refuse(_failed(502, end.why, end.message))
        return True

    async def _send(
        self, pod: Pod, body: bytes, make: Callable[[PodConnection], Kind]
    ) -> tuple[End, Kind | None]:
        assert self._exchange is not None
        config = self._wiring.config()
        connect_seconds = config.deadlines.connect if config else CONNECT_SECONDS
        return await self._exchange.send((pod.address, pod.port), body, connect_seconds, make)

    def _relay_on(
        self, over: PodConnection, ask: Ask, extra: Headers = (), *, passes_all: bool = False
    ) -> Relay:
        return Relay(
            over,
            self._wiring.sweep,
            self._wiring.loop,
            self._patience(ask),
            client=self._client,
            progress=self,
            surface=ask.surface,
            extra=(*self._extra(), *extra),
            strips_usage=ask.streams and not ask.wants_usage,
            passes_all=passes_all,
        )

    def _extra(self) -> Headers:
        named = (b"x-request-id", self._id.encode())
        seat = self._record.seat
        if seat is None:
            return (named,)
        return (named, (b"x-tidegate-revision", seat.pod.revision.encode()))

    def _patience(self, ask: Ask) -> Patience:
        config = self._wiring.config()
        has = config.deadlines if config else Deadlines()
        return patience(ask, has, self._record.begun_at)

    # What the relay tells: `relay.Progress`.

    def first_token(self, now: float) -> None:
        """The first byte of an answer's body came."""
        record = self._record
        record.ttft_seconds = now - record.begun_at
        record.is_answered = True
        if record.seat is None or record.ask is None:
            return
        self._wiring.admissions.first_token(record.seat, now)
        if self._second_step_at is not None:
            self._wiring.observer.transferred(record.seat.pod, now - self._second_step_at)

    def begun(self) -> None:
        """The client gets this answer: the time of one that failed before is nobody's."""
        record = self._record
        ask, seconds = record.ask, record.ttft_seconds
        if record.seat is not None and ask is not None and seconds is not None:
            self._wiring.observer.first_token(ask, record.revision or "", seconds)

    def produced(self, tokens: int, seconds: float, now: float) -> None:
        """So many more tokens came in this time."""
        record = self._record
        if record.seat is not None and record.ask is not None:
            self._wiring.admissions.produced(record.seat, tokens, now)
            self._wiring.observer.pace(record.ask, record.seat.pod, tokens, seconds)

    def error_event(self, why: Why, message: str) -> bytes:
        """Make the event that ends a broken stream."""
        return answers.error_event(_failed(502, why, message))

    # The end.

    def _visited(self, outcome: Outcome) -> None:
        """Tell what a pod made of the request, whatever another pod will make good."""
        record = self._record
        pod, record.visited = record.visited, None
        if pod is not None:
            self._wiring.observer.visited(
                pod, outcome, is_first=record.visits == 1, is_answered=record.is_answered
            )

    def _refuse(self, refusal: Refusal) -> None:
        self._record.refused = refusal
        self._answer(*answers.refusal(refusal, self._id))

    def _answer(self, status: int, said: Headers, body: bytes) -> None:
        self._record.status = status
        self._client.answer(status, said, body)

    def _over(self, task: "asyncio.Task[None]") -> None:
        """Give back all that the request held, by whichever way it ended."""
        wiring, record, now = self._wiring, self._record, self._wiring.loop.time()
        if self._exchange is not None:
            self._exchange.abort()
            record.note(self._exchange.answer)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() and self._is_cut:
            record.end = _GATE_GONE if record.seat is not None else None
            self._refuse(_STOPPING)
        elif task.cancelled():
            record.end = CLIENT_GONE
            self._visited(Outcome.CLIENT_GONE)
        elif error is not None:
            _log.error("request %s: the gate failed", self._id, exc_info=error)
            record.end = End(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR)
            record.status = 500
            self._client.abort()
        self._seating.leave(now)
        if record.seat is not None:
            outcome = record.outcome if error is None else Outcome.CLIENT_GONE  # no pod's fault
            wiring.admissions.ended(record.seat, outcome, record.usage, now)
        if record.ask is not None and record.usage is not None:
            wiring.reader.learn(record.ask, record.usage)
        wiring.observer.finished(record.finished(now))
        # Both know this visit: no ring is left to the collector.
        self._exchange = record.seat = self._task = None


def _failed(status: int, why: Why | None, message: str) -> Refusal:
    return Refusal(status, why or Why.ENGINE_ERROR, message, "api_error")
