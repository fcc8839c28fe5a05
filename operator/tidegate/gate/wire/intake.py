"""Reads requests from a client's bytes, one at a time, within bounds. Knows no socket.

What is not plain HTTP/1.1, or too much of it, ends in `Refused`.
"""

from typing import Final

from tidegate.api.gate_config import Limits
from tidegate.gate.exchange import Refusal, Why
from tidegate.gate.wire.framing import BadFraming, Framing, framing, joined
from tidegate.gate.wire.heads import CHUNKED, HEAD_END, Asked, BadHead, read_request
from tidegate.gate.wire.host import Judge

SPARE_FRAMING_BYTES: Final = 16 * 1024
"""What a body's chunks may take beside its own bytes, and an eighth of those."""

_NO_ROOM: Final = Refusal(
    503,
    Why.QUEUE_FULL,
    "the gate holds as much for its clients as it has memory for",
    "overloaded_error",
    None,
    1,
)


class Refused(Exception):
    """A request that is not read further."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


class Intake:
    """The request that is being read or served, and what came after it."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._buffer = b""
        self._framing: Framing = framing(0)
        self._came = bytearray()  # not a list: a byte in an object of its own takes forty
        self._framing_bytes = 0
        self._held_bytes = 0
        self._is_accepted = False
        self.asked: Asked | None = None
        self.body_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that came and were not looked at."""
        return len(self._buffer)

    @property
    def is_amid_body(self) -> bool:
        """Whether a head was accepted, whose body is still to come."""
        return self._is_accepted

    @property
    def owes_continue(self) -> bool:
        """Whether the client waits for a word before it sends its body."""
        waits = self._is_accepted and self.asked is not None and self.asked.expects_continue
        return waits and not self.body_bytes and not self._buffer

    def add(self, data: bytes) -> None:
        """Take bytes, without a look at them."""
        self._buffer = self._buffer + data if self._buffer else data

    def read(self, peer: str) -> bytes | None:
        """Read on; return the body as soon as a request is whole.

        Raises:
            Refused: there is no point in reading further.
        """
        try:
            if not self._is_accepted and not self._read_head(peer):
                return None
            return self._read_body()
        except (BadHead, BadFraming) as error:
            raise Refused(Refusal(400, Why.BAD_REQUEST, f"not a request: {error}")) from None

    def pass_over(self) -> bool:
        """Pass over the body of a refused request; False where its end is not known or not here."""
        asked = self.asked
        if asked is None or self._is_accepted or not 0 <= asked.length <= len(self._buffer):
            self._buffer = b""
            return False
        self._buffer = self._buffer[asked.length :]
        return True

    def done(self) -> None:
        """The request is over: the next one may be read."""
        held, self._held_bytes = self._held_bytes, 0
        self._judge.let_go(held)
        self.asked = None
        self._is_accepted = False
        self._came = bytearray()

    def clear(self) -> None:
        """Nothing more is read."""
        self.done()
        self._buffer = b""

    def _read_head(self, peer: str) -> bool:
        limits = self._judge.limits()
        limit = limits.header_bytes
        data = self._buffer.lstrip(b"\r\n") if self._buffer[:1] in b"\r\n" else self._buffer
        end = data.find(HEAD_END, 0, limit)
        if end < 0:
            self._buffer = data
            if len(data) > limit:
                raise Refused(Refusal(431, Why.TOO_LARGE, f"the headers are over {limit} bytes"))
            return False
        self._buffer = data[end + 4 :]
        self.asked = asked = read_request(data[: end + 4], peer)
        refusal = self._judge.judge(asked.head)
        if refusal is not None:
            raise Refused(refusal)
        _require_short(asked.length, limits)
        if asked.length > 0:
            self._hold(asked.length)
        self._framing, self.body_bytes, self._is_accepted = framing(asked.length), 0, True
        self._framing_bytes = 0
        return True

    def _read_body(self) -> bytes | None:
        assert self.asked is not None
        data, self._buffer = self._buffer, b""
        body = self._framing
        raw = body.feed(data)
        came = joined(raw, body.spans)
        self.body_bytes += len(came)
        if self.asked.length == CHUNKED:
            self._framing_bytes += len(raw) - len(came)
            _require_short(self.body_bytes, self._judge.limits())
            if self._framing_bytes > SPARE_FRAMING_BYTES + self.body_bytes // 8:
                raise BadFraming("its chunks are too small")
            self._hold(len(came))
        if body.ended and not self._came:
            whole = came
        else:
            self._came += came
            if not body.ended:
                return None
            whole, self._came = bytes(self._came), bytearray()
        self._is_accepted = False
        self._buffer = body.rest
        return whole

    def _hold(self, more_bytes: int) -> None:
        if not self._judge.may_hold(more_bytes):
            raise Refused(_NO_ROOM)
        self._held_bytes += more_bytes


def _require_short(body_bytes: int, limits: Limits) -> None:
    if body_bytes > limits.body_bytes:
        raise Refused(Refusal(413, Why.TOO_LARGE, f"the body is over {limits.body_bytes} bytes"))
