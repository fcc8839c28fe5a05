"""Reads one answer from a pod's connection: its head, its framing, its deadlines.

`Whole` keeps a short answer for the gate itself; `relay.Relay` passes one on to a client.
"""

import asyncio
from typing import Final

from tidegate.gate.exchange import Outcome, Usage, Why
from tidegate.gate.values import value_class
from tidegate.gate.wire.framing import BadFraming, Framing, framing, joined
from tidegate.gate.wire.heads import (
    HEAD_END,
    UNTIL_CLOSE,
    Answered,
    BadHead,
    read_answer,
)
from tidegate.gate.wire.patience import Patience
from tidegate.gate.wire.pods import PodConnection
from tidegate.gate.wire.sweep import Sweep

_HEAD_BYTES: Final = 64 * 1024
_WHOLE_BYTES: Final = 8 * 1024 * 1024
_NO_BODY_YET: Final = framing(0)


@value_class
class End:
    """How an answer ended.

    Attributes:
        outcome: for the ledger.
        why: for the client, where it was not served.
        message: what happened, in words.
        usage: what the engine counted, where it told.
        has_begun: whether the client has had a byte of it.
        was_silent: whether the pod had not answered with a single byte.
    """

    outcome: Outcome
    why: Why | None = None
    message: str = ""
    usage: Usage | None = None
    has_begun: bool = False
    was_silent: bool = False


CLIENT_GONE: Final = End(Outcome.CLIENT_GONE)
_FINISHED: Final = End(Outcome.FINISHED)
_REFUSED: Final = End(Outcome.ENGINE_REFUSED)


class Answer:
    """One answer as it comes; its end is what `end` gives."""

    def __init__(
        self,
        connection: PodConnection,
        sweep: Sweep,
        loop: asyncio.AbstractEventLoop,
        has: Patience,
    ) -> None:
        self._connection = connection
        self._sweep = sweep
        self._loop = loop
        self._has = has
        self._head = b""
        self._heard_at = loop.time()
        self._is_past_first = False
        self.is_over = False
        self.answered: Answered | None = None
        self._framing: Framing = _NO_BODY_YET
        self.end: asyncio.Future[End] = loop.create_future()

    def ask(self, head: bytes, body: bytes) -> None:
        """Send the request that this answers."""
        self._sweep.add(self)
        self._connection.send(head, body, self)

    def data(self, data: bytes) -> None:
        """Take bytes from the connection."""
        try:
            if self.answered is None:
                self._read_head(data)
            else:
                self._read_body(data)
        except (BadHead, BadFraming) as error:
            self._fail(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, f"not an answer: {error}")

    def lost(self) -> None:
        """The connection ended: well only if that is how the body ends."""
        if self.answered is not None and self.answered.length == UNTIL_CLOSE:
            self._on_end()
        else:
            self._fail(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, "the engine closed the connection")

    def check(self, now: float) -> None:
        """Give up when a deadline has passed.

        An engine that answers as it should is not to blame for an answer that takes too long; one
        that was to stream, and gave nothing in all that time, is.
        """
        if now > self._has.until:
            is_silent = self._has.streams and not self._is_past_first
            self._give_up(Outcome.DEADLINE if is_silent else Outcome.TOTAL_DEADLINE)
        elif not self._is_past_first:
            if now > self._heard_at + self._has.first:
                self._fail(Outcome.DEADLINE, Why.TTFT_DEADLINE, "the engine gave no first token")
        elif now > self._heard_at + self._has.between:
            self._fail(Outcome.DEADLINE, Why.STALLED, "the engine gave no more tokens")

    def _give_up(self, outcome: Outcome) -> None:
        self._fail(outcome, Why.TOTAL_DEADLINE, "the answer took too long")

    def abort(self) -> None:
        """Close the connection at once: nobody wants the answer any more."""
        if not self.is_over:
            self._finish(CLIENT_GONE, is_clean=False)

    def _read_head(self, data: bytes) -> None:
        self._head += data
        while self.answered is None:
            end = self._head.find(HEAD_END)
            if end < 0:
                if len(self._head) > _HEAD_BYTES:
                    raise BadHead("its head is too long")
                return
            answered = read_answer(self._head[: end + 4])
            self._head = self._head[end + 4 :]
            if answered.status == 101:
                raise BadHead("it switches protocols")
            if answered.status >= 200:
                self.answered = answered
        self._framing = framing(self.answered.length)
        self._on_head(self.answered)
        if self._head or self._framing.ended:
            self._read_body(self._head)

    def _read_body(self, data: bytes) -> None:
        raw = self._framing.feed(data)
        if raw:
            self._heard_at = self._loop.time()
            if not self._is_past_first:
                self._is_past_first = True
                self._on_first()
            self._on_body(raw)
        if self._framing.ended and not self.is_over:
            self._on_end()

    def _finish(self, end: End, *, is_clean: bool) -> None:
        """Part from the connection and tell the end; whoever asked may have left before."""
        self.is_over = True
        self._sweep.discard(self)
        answered, connection = self.answered, self._connection
        if is_clean and answered and answered.keeps_alive and not self._framing.rest:
            connection.release(self._loop.time())
        else:
            connection.close()
        if not self.end.done():
            self.end.set_result(end)

    def _fail(self, outcome: Outcome, why: Why, message: str) -> None:
        if not self.is_over:
            silent = self.answered is None and not self._head
            self._finish(End(outcome, why, message, was_silent=silent), is_clean=False)

    def _on_head(self, answered: Answered) -> None:
        """The head is there."""

    def _on_first(self) -> None:
        """The first bytes of the body came."""

    def _on_body(self, raw: bytes) -> None:
        """Bytes of the body came, as they may be passed on."""

    def _on_end(self) -> None:
        """The body is whole."""
        self._finish(outcome_of(self.answered), is_clean=True)

    def _payload(self, raw: bytes) -> bytes:
        """Return the body's own bytes of what `_on_body` got."""
        return joined(raw, self._framing.spans)


class Whole(Answer):
    """A short answer that is kept whole, for the gate itself."""

    def __init__(
        self,
        connection: PodConnection,
        sweep: Sweep,
        loop: asyncio.AbstractEventLoop,
        has: Patience,
    ) -> None:
        super().__init__(connection, sweep, loop, has)
        self._parts: list[bytes] = []
        self._bytes = 0

    @property
    def body(self) -> bytes:
        """What came of the body."""
        return b"".join(self._parts)

    def _on_body(self, raw: bytes) -> None:
        payload = self._payload(raw)
        self._bytes += len(payload)
        if self._bytes > _WHOLE_BYTES:
            raise BadFraming("it is too long")
        self._parts.append(payload)


def outcome_of(answered: Answered | None) -> End:
    """Tell what a status means for the ledger."""
    status = answered.status if answered else 0
    if 200 <= status < 300:
        return _FINISHED
    if 400 <= status < 500:
        return _REFUSED
    if status == 503:
        return End(Outcome.ENGINE_FULL, Why.ENGINE_ERROR, "the engine is full")
    return End(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, f"the engine answered {status}")
