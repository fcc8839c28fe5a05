"""One client's connection: requests come in, one at a time, and answers go out.

What the client sent meanwhile is looked at when the answer is out. Everything a client can make
the gate hold is bounded, in bytes and in time; after what is not plain HTTP/1.1 comes one answer
and no second chance.
"""

import asyncio
import socket
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, cast

from tidegate.gate.exchange import Refusal, Why
from tidegate.gate.wire.heads import CHUNKED, UNTIL_CLOSE, Asked, Headers, write_answer
from tidegate.gate.wire.host import Host
from tidegate.gate.wire.intake import Intake, Refused
from tidegate.gate.wire.memory import UNCOUNTED_BYTES
from tidegate.gate.wire.parties import Reads
from tidegate.gate.wire.relay import CLIENT_STALL_SECONDS
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
PIPELINED_BYTES: Final = 16 * 1024
"""What is taken of later requests while one is served; then the connection is not read."""
HIGH_WATER_BYTES: Final = 16 * 1024
"""What waits to be read by a client until its engine is not read further; many events."""
LOW_WATER_BYTES: Final = 4 * 1024


class Phase(Enum):
    """What a connection does now."""

    READING = auto()
    """It waits for a request, or for the rest of one."""
    SERVED = auto()
    """A request is being answered."""
    LINGERING = auto()
    """The last answer is out; what still comes is dropped."""
    CLOSED = auto()


class ClientConnection(asyncio.Protocol):
    """One connection of a client; `relay.Client` to the relay that answers on it."""

    def __init__(self, host: Host, sweep: Sweep, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._sweep = sweep
        self._loop = loop
        self._transport: asyncio.Transport
        self._intake = Intake(host)
        self._phase = Phase.READING
        self._leave: Callable[[], None] | None = None
        self._keeps_alive = False
        self._since = loop.time()
        self._unsent_bytes = 0
        self._moved_at = self._since
        self._is_ahead = False
        self._peer = ""
        self._kept_bytes = 0
        self._counted_bytes = 0
        self.is_http10 = False
        self.is_paused = False
        self.reads: Reads | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, unless there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._sweep.add(self)
        if not self._host.opened(self):
            self._phase = Phase.SERVED
            self._host.refuse(self, None, _TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Take bytes, as far as they may be looked at now."""
        if self._phase in (Phase.LINGERING, Phase.CLOSED):
            return
        intake = self._intake
        if self._phase is Phase.READING and not intake.is_amid_body and not intake.waiting_bytes:
            self._since = self._loop.time()
        intake.add(data)
        if self._phase is Phase.READING and not self.is_paused and not self._is_ahead:
            self._advance()
        if self._holds_enough:
            self._transport.pause_reading()
        self._count_buffers()

    def eof_received(self) -> bool:
        """The client hung up: nothing that is half closed is served."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and with it what was done for it."""
        self._phase = Phase.CLOSED
        self._sweep.discard(self)
        self._intake.clear()
        if self.reads is not None:
            self.reads.abort()
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
        self._host.closed(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        self.is_paused = True
        if self.reads is not None:
            self.reads.pause()
        self._count_buffers()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.is_paused = False
        self._count_buffers()
        if self.reads is not None:
            self.reads.resume()
        if self._phase is Phase.READING:
            self._read_on()

    # Deadlines.

    def check(self, now: float) -> None:
        """Close a connection that is too slow, or idle."""
        if self._phase is Phase.SERVED:
            return
        waited = now - self._since
        intake = self._intake
        if self._has_unsent(now):
            if now - self._moved_at > CLIENT_STALL_SECONDS:
                self.abort()
            elif self._host.is_draining and self._phase is Phase.READING:
                self.close()
        elif self._phase is Phase.LINGERING:
            if waited > LINGER_SECONDS:
                self._transport.abort()
        elif self._phase is Phase.CLOSED:
            return
        elif intake.is_amid_body:
            if waited > BODY_SECONDS + intake.body_bytes / BODY_BYTES_PER_SECOND:
                self._refuse(Refusal(408, Why.BAD_REQUEST, "the body did not come in time"))
        elif intake.waiting_bytes:
            if waited > HEAD_SECONDS:
                self._refuse(Refusal(408, Why.BAD_REQUEST, "the head did not come in time"))
        elif waited > IDLE_SECONDS or self._host.is_draining:
            self.close()

    def _has_unsent(self, now: float) -> bool:
        """Tell whether the client has not read all that was written; notes when that changed."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._moved_at = unsent_bytes, now
        return unsent_bytes > 0

    # A request.

    def _advance(self) -> None:
        """Read what there is, and serve a request that is whole."""
        intake = self._intake
        was_amid_body = intake.is_amid_body
        try:
            body = intake.read(self._peer)
        except Refused as refused:
            self._refuse(refused.refusal)
            return
        if not was_amid_body:
            self._since = self._loop.time() if intake.is_amid_body else self._since
            if intake.owes_continue:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if body is not None and intake.asked is not None:
            self._phase = Phase.SERVED
            self._heed(intake.asked)
            self._leave = self._host.serve(self, intake.asked, body)

    def _heed(self, asked: Asked) -> None:
        self.is_http10 = asked.is_http10
        self._keeps_alive = asked.keeps_alive and not asked.is_http10

    def _refuse(self, refusal: Refusal) -> None:
        """Say no; the connection lives on only where the request's end is known and has come."""
        asked = self._intake.asked
        if asked is not None:
            self._heed(asked)
        self._keeps_alive = self._intake.pass_over() and self._keeps_alive
        self._phase = Phase.SERVED
        self._host.refuse(self, asked.head if asked else None, refusal)

    # An answer: `relay.Client`.

    @property
    def _stays(self) -> bool:
        return self._keeps_alive and not self._host.is_draining

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole answer of the gate's own."""
        asked = self._intake.asked
        is_head = asked is not None and asked.head.method == "HEAD"
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

    def may_keep(self, kept_bytes: int) -> bool:
        """Note what is kept of an answer before it begins; False where there is no room for it."""
        if kept_bytes > UNCOUNTED_BYTES and not self._host.has_room(kept_bytes - self._kept_bytes):
            return False
        self._kept_bytes = kept_bytes
        self._count_buffers()
        return True

    def write(self, data: bytes) -> None:
        """Write bytes; uvloop raises where the client left in this very turn of the loop."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def finish(self) -> None:
        """The answer is out: look at the next request, or close."""
        if self._phase is not Phase.SERVED:
            return
        self._leave = None
        self._intake.done()
        self._since = self._loop.time()
        if not self._stays:
            self._linger()
            return
        self._phase = Phase.READING
        if not self.is_paused:  # who asks and does not read gets no further answers
            self._read_on()

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
    def is_answered(self) -> bool:
        """Whether a whole request is under way, to the last byte of its answer."""
        return self._phase is Phase.SERVED or self._transport.get_write_buffer_size() > 0

    @property
    def is_served(self) -> bool:
        """Whether a request is under way, from its first byte to the last of its answer."""
        intake = self._intake
        return self.is_answered or intake.is_amid_body or intake.waiting_bytes > 0

    @property
    def _holds_enough(self) -> bool:
        """Whether no more is to be read before what came is looked at."""
        is_busy = self._phase is Phase.SERVED or self.is_paused or self._is_ahead
        return is_busy and self._intake.waiting_bytes > PIPELINED_BYTES

    def _count_buffers(self) -> None:
        """Tell the server what is held here, where it is much or was."""
        held_bytes = self._kept_bytes + self._intake.waiting_bytes
        if self.is_paused:
            held_bytes += self._transport.get_write_buffer_size()
        counted_bytes = held_bytes if held_bytes > UNCOUNTED_BYTES else 0
        if self._phase is Phase.CLOSED or not (counted_bytes or self._counted_bytes):
            return
        self._counted_bytes = counted_bytes
        self._host.buffers(self, counted_bytes)

    def _read_on(self) -> None:
        """Look at what came meanwhile, in a turn of its own, and read further."""
        if self._intake.waiting_bytes and not self._is_ahead:
            self._is_ahead = True
            self._loop.call_soon(self._catch_up)
        if not self._transport.is_closing() and not self._holds_enough:
            self._transport.resume_reading()

    def _catch_up(self) -> None:
        self._is_ahead = False
        if self._phase is not Phase.READING or self.is_paused:
            return
        if self._intake.waiting_bytes:
            self._advance()
            self._count_buffers()
        if not self._transport.is_closing() and not self._holds_enough:
            self._transport.resume_reading()

    def _linger(self) -> None:
        """End the answer, and drop what the client still sends for a moment."""
        self._phase = Phase.LINGERING
        self._intake.clear()
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()


_TOO_MANY: Final = Refusal(503, Why.QUEUE_FULL, "too many connections", "overloaded_error", None, 1)
