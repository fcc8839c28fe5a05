"""Connections to the engines: kept for a while, the last used first, and one request at a time."""

import asyncio
import socket
from typing import Final, Protocol, cast

from tidegate.gate.wire.sweep import Sweep

IDLE_SECONDS: Final = 4.0
"""vLLM closes a connection that was idle for 5 s (`VLLM_HTTP_TIMEOUT_KEEP_ALIVE`)."""

Address = tuple[str, int]


class Unreachable(Exception):
    """No connection to the pod came about, so nothing was sent."""


class Taker(Protocol):
    """Who takes the bytes of an answer."""

    def data(self, data: bytes) -> None:
        """Bytes came."""

    def lost(self) -> None:
        """The connection ended."""


class PodConnection(asyncio.Protocol):
    """One connection to an engine."""

    __slots__ = ("_idle", "address", "idle_since", "is_reused", "taker", "transport")

    def __init__(self, idle: dict[Address, list["PodConnection"]], address: Address) -> None:
        self._idle = idle
        self.address = address
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set when connected
        self.taker: Taker | None = None
        self.is_reused = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the one who waits for them; nobody waits for an idle connection's."""
        if self.taker is None:
            self.close()
        else:
            self.taker.data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the one who waits, or forget an idle connection."""
        taker, self.taker = self.taker, None
        if taker is not None:
            taker.lost()
        else:
            self._forget()

    def send(self, head: bytes, body: bytes, taker: Taker) -> None:
        """Send a request, whose answer `taker` gets."""
        if self.transport.is_closing():
            taker.lost()
            return
        self.taker = taker
        self.transport.writelines((head, body))

    def pause(self) -> None:
        """Read no more for now."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def release(self, now: float) -> None:
        """Keep the connection for a later request: its answer has come to its end."""
        self.taker = None
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        self.is_reused = True
        self.idle_since = now
        self._idle.setdefault(self.address, []).append(self)

    def close(self) -> None:
        """Close it at once, and with it the engine's request."""
        self.taker = None
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        kept = self._idle.get(self.address, [])
        if self in kept:
            kept.remove(self)


class Pods:
    """The connections to all pods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sweep: Sweep) -> None:
        self._loop = loop
        self._idle: dict[Address, list[PodConnection]] = {}
        sweep.add(self)

    def idle(self, address: Address) -> PodConnection | None:
        """Return a kept connection, the last used, if there is one."""
        kept = self._idle.get(address)
        while kept:
            connection = kept.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    async def open(self, address: Address, deadline_seconds: float) -> PodConnection:
        """Open a connection.

        Raises:
            Unreachable: there was none within the deadline.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                _, connection = await self._loop.create_connection(
                    lambda: PodConnection(self._idle, address), *address
                )
        except OSError as error:  # TimeoutError is one
            raise Unreachable(f"{address[0]}:{address[1]}: {str(error) or 'no answer'}") from None
        return connection

    def check(self, now: float) -> None:
        """Close connections that were idle for long: the first of a list are the oldest."""
        for address, kept in tuple(self._idle.items()):
            while kept and now - kept[0].idle_since > IDLE_SECONDS:
                kept[0].close()
            if not kept:
                del self._idle[address]

    def close(self) -> None:
        """Close all that are idle."""
        for kept in tuple(self._idle.values()):
            for connection in tuple(kept):
                connection.close()
