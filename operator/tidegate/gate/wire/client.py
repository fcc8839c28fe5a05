"""One client's connection: requests come in, one at a time, and answers go out.

A connection reads a head, has it judged, reads the body, hands both over, and looks at what the
client sent meanwhile only when the answer is out. Everything a client can make the gate hold is
bounded, in bytes and in time; what is not plain HTTP/1.1 gets one answer and no second chance.
"""

import asyncio
import socket
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol, cast

from tidegate.api.gate_config import Limits
from tidegate.gate.core import answers
from tidegate.gate.exchange import Head, Refusal, Why
from tidegate.gate.wire.framing import BadFraming, Framing, framing
from tidegate.gate.wire.heads import (
    CHUNKED,
    HEAD_END,
    UNTIL_CLOSE,
    Asked,
    BadHead,
    Headers,
    read_request,
    write_answer,
)
from tidegate.gate.wire.relay import CLIENT_STALL_SECONDS, Relay
from tidegate.gate.wire.sweep import Sweep

HEAD_SECONDS: Final = 10.0
"""From a head's first byte to its last."""
IDLE_SECONDS: Final = 120.0
"""Between two requests; longer than the pools of common clients keep a connection."""
BODY_SECONDS: Final = 20.0
"""For a body of any size, and beyond it at least `BODY_BYTES_PER_SECOND`."""
BODY_BYTES_PER_SECOND: Final = 16 * 1024
LINGER_SECONDS: Final = 2.0
"""How long a refused client may go on sending, so that it reads the answer before a reset."""
PIPELINED_BYTES: Final = 64 * 1024
"""What is taken of later requests while one is served; then the connection is not read."""
HIGH_WATER_BYTES: Final = 64 * 1024
LOW_WATER_BYTES: Final = 16 * 1024


class Phase(Enum):
    """What a connection does now."""

    HEAD = auto()
    BODY = auto()
    SERVED = auto()
    """A request is being answered."""
    LINGERING = auto()
    """The last answer is out; what still comes is dropped."""
    CLOSED = auto()


class Host(Protocol):
    """The server, as its connections see it."""

    is_draining: bool

    def limits(self) -> Limits:
        """The bounds that hold now."""

    def judge(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read."""

    def may_hold(self, body_bytes: int) -> bool:
        """Reserve room for a request's body, given back by `let_go`."""

    def let_go(self, body_bytes: int) -> None:
        """Give the room back."""

    def serve(self, client: "ClientConnection", asked: Asked, body: bytes) -> Callable[[], None]:
        """Begin to serve a whole request; returns what is called when the client leaves."""

    def refuse(self, client: "ClientConnection", head: Head | None, refusal: Refusal) -> None:
        """Answer a request that is not served, and count it."""

    def opened(self, client: "ClientConnection") -> bool:
        """Count a connection; False when there are too many."""

    def closed(self, client: "ClientConnection") -> None:
        """Count it no more."""


class ClientConnection(asyncio.Protocol):
    """One connection of a client; `relay.Client` to the relay that answers on it."""

    def __init__(self, host: Host, sweep: Sweep, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._sweep = sweep
        self._loop = loop
        self._transport: asyncio.Transport
        self._phase = Phase.HEAD
        self._buffer = b""
        self._asked: Asked | None = None
        self._framing: Framing = framing(0)
        self._parts: list[bytes] = []
        self._body_bytes = 0
        self._held_bytes = 0
        self._leave: Callable[[], None] | None = None
        self._keeps_alive = False
        self._since = loop.time()
        self.peer = ""
        self.is_http10 = False
        self.is_paused = False
        self.reads: Relay | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, unless there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._sweep.add(self)
        if not self._host.opened(self):
            self.refuse_and_close(
                Refusal(503, Why.QUEUE_FULL, "too many connections", "overloaded_error", None, 1)
            )

    def data_received(self, data: bytes) -> None:
        """Take bytes, as far as they may be looked at now."""
        if self._phase in (Phase.LINGERING, Phase.CLOSED):
            return
        if self._phase is Phase.HEAD and not self._buffer:
            self._since = self._loop.time()
        self._buffer = self._buffer + data if self._buffer else data
        if self._phase is not Phase.SERVED:
            self._advance()
        if self._phase is Phase.SERVED and len(self._buffer) > PIPELINED_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client hung up: nothing that is half closed is served."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and with it what was done for it."""
        self._phase = Phase.CLOSED
        self._sweep.discard(self)
        self._let_go()
        self._buffer = b""
        if self.reads is not None:
            self.reads.abort()
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
        self._host.closed(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than the engine writes."""
        self.is_paused = True
        if self.reads is not None:
            self.reads.pause()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.is_paused = False
        if self.reads is not None:
            self.reads.resume()

    # Deadlines.

    def check(self, now: float) -> None:
        """Close a connection that is too slow, or idle."""
        waited = now - self._since
        if self._phase is Phase.HEAD and not self._buffer:
            if waited > IDLE_SECONDS or self._host.is_draining:
                self.close()
        elif self._phase is Phase.HEAD:
            if waited > HEAD_SECONDS:
                self._refuse_late("the head did not come in time")
        elif self._phase is Phase.BODY:
            if waited > BODY_SECONDS + self._body_bytes / BODY_BYTES_PER_SECOND:
                self._refuse_late("the body did not come in time")
        elif self._phase is Phase.LINGERING:
            unsent = self._transport.get_write_buffer_size()
            if waited > (CLIENT_STALL_SECONDS if unsent else LINGER_SECONDS):
                self._transport.abort()

    def _refuse_late(self, message: str) -> None:
        self._refuse(Refusal(408, Why.BAD_REQUEST, message))

    # A request.

    def _advance(self) -> None:
        """Read what there is: a head, then its body."""
        try:
            if self._phase is Phase.HEAD and not self._read_head():
                return
            if self._phase is Phase.BODY:
                self._read_body()
        except (BadHead, BadFraming) as error:
            self._refuse(Refusal(400, Why.BAD_REQUEST, f"not a request: {error}"))

    def _read_head(self) -> bool:
        """Read a head and judge it; False while there is none, or none that goes on."""
        limit = self._host.limits().header_bytes
        data = self._buffer.lstrip(b"\r\n") if self._buffer[:1] in b"\r\n" else self._buffer
        end = data.find(HEAD_END, 0, limit)
        if end < 0:
            self._buffer = data
            if len(data) > limit:
                self._refuse(Refusal(431, Why.TOO_LARGE, f"headers are over {limit} bytes"))
            return False
        self._asked = asked = read_request(data[: end + 4], self.peer)
        self._buffer = data[end + 4 :]
        self.is_http10 = asked.is_http10
        self._keeps_alive = asked.keeps_alive and not asked.is_http10
        refusal = self._host.judge(asked.head) or self._bounds(asked)
        if refusal is not None:
            self._refuse(refusal)
            return False
        self._phase, self._since = Phase.BODY, self._loop.time()
        self._framing, self._body_bytes = framing(asked.length), 0
        if asked.expects_continue and not self._buffer and not self._framing.ended:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _bounds(self, asked: Asked) -> Refusal | None:
        """Refuse a body that is too long, or one too many."""
        limit = self._host.limits().body_bytes
        if asked.length > limit:
            return Refusal(413, Why.TOO_LARGE, f"the body is over {limit} bytes")
        return None if self._hold(max(asked.length, 0)) else _NO_ROOM

    def _hold(self, more_bytes: int) -> bool:
        if not self._host.may_hold(more_bytes):
            return False
        self._held_bytes += more_bytes
        return True

    def _let_go(self) -> None:
        held, self._held_bytes = self._held_bytes, 0
        self._host.let_go(held)

    def _read_body(self) -> None:
        data, self._buffer = self._buffer, b""
        body = self._framing
        raw = body.feed(data)
        is_chunked = self._asked is not None and self._asked.length == CHUNKED
        came = [raw[start:end] for start, end in body.spans] if is_chunked else [raw]
        more_bytes = sum(map(len, came))
        self._body_bytes += more_bytes
        self._parts += came
        if is_chunked:
            limit = self._host.limits().body_bytes
            if self._body_bytes > limit:
                self._refuse(Refusal(413, Why.TOO_LARGE, f"the body is over {limit} bytes"))
                return
            if not self._hold(more_bytes):
                self._refuse(_NO_ROOM)
                return
        if body.ended:
            self._serve(body.rest)

    def _serve(self, rest: bytes) -> None:
        assert self._asked is not None
        whole = b"".join(self._parts)
        self._parts = []
        self._buffer = rest
        self._phase = Phase.SERVED
        self._leave = self._host.serve(self, self._asked, whole)

    def _refuse(self, refusal: Refusal) -> None:
        """Say no; the connection lives on only where the request's end is known and has come."""
        asked, is_whole = self._asked, False
        if asked is not None and self._phase is Phase.HEAD:
            is_whole = 0 <= asked.length <= len(self._buffer)
            self._buffer = self._buffer[max(asked.length, 0) :] if is_whole else b""
        self._keeps_alive = self._keeps_alive and is_whole
        self._phase = Phase.SERVED
        self._host.refuse(self, asked.head if asked else None, refusal)

    def refuse_and_close(self, refusal: Refusal) -> None:
        """Say no to a connection, whatever it wants."""
        self._keeps_alive = False
        self._phase = Phase.SERVED
        self.answer(*answers.refusal(refusal, ""))

    # An answer: `relay.Client`.

    @property
    def _stays(self) -> bool:
        return self._keeps_alive and not self._host.is_draining

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole answer of the gate's own."""
        is_head = self._asked is not None and self._asked.head.method == "HEAD"
        head = write_answer(status, headers, len(body), keeps_alive=self._stays)
        self.write(head if is_head else head + body)
        self.finish()

    def begin(self, status: int, headers: Headers, length: int, first: bytes) -> None:
        """Write the head of an answer that an engine gives, and its first bytes."""
        if length == CHUNKED and self.is_http10:
            length = UNTIL_CLOSE
        if length == UNTIL_CLOSE:
            self._keeps_alive = False
        self.write(write_answer(status, headers, length, keeps_alive=self._stays) + first)

    def write(self, data: bytes) -> None:
        """Write bytes; uvloop raises where the client left in this very turn of the loop."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def finish(self) -> None:
        """The answer is out: look at the next request, or close."""
        if self._phase is not Phase.SERVED:
            return
        self._leave = None
        self._let_go()
        self._asked = None
        self._since = self._loop.time()
        if not self._stays:
            self._linger()
            return
        self._phase = Phase.HEAD
        if not self._transport.is_closing():
            self._transport.resume_reading()
        if self._buffer:
            self._loop.call_soon(self._advance_if_open)

    def cut(self, last: bytes) -> None:
        """Write these last bytes and close: the client sees that the answer is not whole."""
        self._keeps_alive = False
        if last:
            self.write(last)
        self.finish()

    def close(self) -> None:
        """Close, with what is still to be written written."""
        self._phase = Phase.CLOSED
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._phase = Phase.CLOSED
        self._transport.abort()

    @property
    def is_served(self) -> bool:
        """Whether a request is under way, from its first byte on."""
        return self._phase in (Phase.BODY, Phase.SERVED) or bool(self._buffer)

    def _advance_if_open(self) -> None:
        if self._phase is Phase.HEAD and self._buffer:
            self._advance()

    def _linger(self) -> None:
        """End the answer, and drop what the client still sends for a moment."""
        self._phase = Phase.LINGERING
        self._buffer = b""
        self._parts = []
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()


_NO_ROOM: Final = Refusal(
    503, Why.QUEUE_FULL, "too many bodies are held at once", "overloaded_error", None, 1
)
