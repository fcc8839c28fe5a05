"""The gate's port: accepts clients, answers what needs no engine, and leaves in good order."""

import asyncio
import secrets
import socket
from collections.abc import Callable, Iterable
from typing import Final

from tidegate.api.gate_config import GateConfig, Limits
from tidegate.gate.core import answers, headers
from tidegate.gate.exchange import Admissions, Head, Pod, Reader, Refusal, Surface, Why
from tidegate.gate.wire import probe
from tidegate.gate.wire.client import ClientConnection
from tidegate.gate.wire.exact_count import ExactCount
from tidegate.gate.wire.heads import Asked, header
from tidegate.gate.wire.memory import Memory
from tidegate.gate.wire.observer import Finished, Observer
from tidegate.gate.wire.pods import Pods
from tidegate.gate.wire.sweep import Sweep
from tidegate.gate.wire.visit import Visit
from tidegate.gate.wire.wiring import ReadLarge, Resolve, Wiring, read_here

DRAIN_LOOK_SECONDS: Final = 0.05
LAST_WORDS_SECONDS: Final = 1.0
"""From the end of a drain on, for clients to be told that their answer ends here."""
BACKLOG: Final = 2048

_UNCONFIGURED: Final = Limits()
_ALLOW: Final = (b"allow", b"GET, HEAD, OPTIONS, POST")
_SURFACES: Final = frozenset(surface.value for surface in Surface)


class Server:
    """The listening gate; `client.Host` to its connections."""

    def __init__(self, wiring: Wiring, memory: Memory, most_files: int | None = None) -> None:
        self._wiring = wiring
        self._most_files = most_files
        self._listening: list[asyncio.Server] = []
        self._clients: set[ClientConnection] = set()
        self._visits: dict[asyncio.Task[None], Visit] = {}
        self.memory = memory
        self.is_draining = False

    @property
    def in_flight(self) -> int:
        """Requests that are being served or wait for a seat."""
        return len(self._visits)

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Accept clients from these sockets."""
        wiring = self._wiring
        for listening in sockets:
            self._listening.append(
                await wiring.loop.create_server(
                    lambda: ClientConnection(self, wiring.sweep, wiring.loop),
                    sock=listening,
                    backlog=BACKLOG,
                )
            )

    async def drain(self, deadline_seconds: float) -> bool:
        """Accept no more, let what is in flight end, then tell the rest and close all.

        Returns whether every request ended by itself.
        """
        self.is_draining = True
        for listening in self._listening:
            listening.close()
        loop = self._wiring.loop
        until = loop.time() + deadline_seconds
        while loop.time() < until and (self._visits or any(c.is_served for c in self._clients)):
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
        is_clean = not self._visits
        await self._cut()
        await self._close()
        return is_clean

    async def _cut(self) -> None:
        """End what is in flight, so that each client learns why, and wait until that is written."""
        for visit in tuple(self._visits.values()):
            visit.cut()
        loop = self._wiring.loop
        until = loop.time() + LAST_WORDS_SECONDS
        while loop.time() < until and (self._visits or any(c.is_answered for c in self._clients)):
            await asyncio.sleep(DRAIN_LOOK_SECONDS)

    async def _close(self) -> None:
        for client in tuple(self._clients):
            client.close() if not client.is_served else client.abort()
        while self._visits or self._clients:
            await asyncio.sleep(0)
        self._wiring.pods.close()
        self._wiring.sweep.close()

    async def probe(self, prefill: Pod | None, decode: Pod) -> probe.Probed:
        """Send one request of one token through a pair, or to one pod; no client sees it."""
        return await probe.probe(self._wiring, prefill, decode)

    # What connections ask: `client.Host`.

    def limits(self) -> Limits:
        """The bounds that hold now."""
        config = self._wiring.config()
        return config.limits if config else _UNCONFIGURED

    def judge(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read."""
        if self._wiring.config() is None:
            return Refusal(
                503,
                Why.NO_CONFIGURATION,
                "the gate has no configuration yet",
                "service_unavailable_error",
                None,
                1,
            )
        return None if head.method == "OPTIONS" else self._wiring.reader.head(head)

    def may_hold(self, body_bytes: int) -> bool:
        """Reserve room for a request's body."""
        return self.memory.may_hold(body_bytes)

    def let_go(self, body_bytes: int) -> None:
        """Give the room back."""
        self.memory.let_go(body_bytes)

    def serve(self, client: ClientConnection, asked: Asked, body: bytes) -> Callable[[], None]:
        """Begin to serve a whole request; returns what is called when the client leaves."""
        request_id = _request_id(asked.head)
        config = self._wiring.config()
        if asked.head.method == "OPTIONS":
            named = (b"x-request-id", request_id.encode())
            self._reply(client, asked.head, request_id, (204, (_ALLOW, named), b""))
        elif config is not None and asked.head.path.startswith(Surface.MODELS):
            listed = answers.models(config, asked.head.path, request_id)
            self._reply(client, asked.head, request_id, listed)
        else:
            visit = Visit(self._wiring, client, asked, body, request_id)
            task = visit.start()
            self._visits[task] = visit
            task.add_done_callback(self._visits.pop)
            return lambda: _cancel(task)
        return _nothing

    def refuse(self, client: ClientConnection, head: Head | None, refusal: Refusal) -> None:
        """Answer a request that is not served, and count it."""
        request_id = _request_id(head) if head else secrets.token_hex(16)
        self._reply(client, head, request_id, answers.refusal(refusal, request_id), refusal.why)

    def opened(self, client: ClientConnection) -> bool:
        """Count a connection; False when there are too many."""
        self._clients.add(client)
        self._wiring.observer.connections(len(self._clients))
        return len(self._clients) <= self._most_connections

    @property
    def _most_connections(self) -> int:
        """Clients at once: each needs a file, and one more for an engine of each pool.

        Without files for engines, engines that are well would be taken for failed ones.
        """
        most = self.limits().connections
        config = self._wiring.config()
        if self._most_files is None or config is None:
            return most
        return min(most, self._most_files // (1 + len(config.services)))

    def closed(self, client: ClientConnection) -> None:
        """Count it no more."""
        self._clients.discard(client)
        self.memory.buffers(client, 0)
        self._wiring.observer.connections(len(self._clients))

    def has_room(self, more_bytes: int) -> bool:
        """Tell whether so much more may be kept for a client."""
        return self.memory.has_room(more_bytes)

    def buffers(self, client: ClientConnection, held_bytes: int) -> None:
        """Note what is held for a client beside a body."""
        self.memory.buffers(client, held_bytes)

    def _reply(
        self,
        client: ClientConnection,
        head: Head | None,
        request_id: str,
        reply: answers.Reply,
        why: Why | None = None,
    ) -> None:
        status, _, body = reply
        client.answer(*reply)
        trace = header(head.headers, b"traceparent") if head else b""
        self._wiring.observer.finished(
            Finished.unserved(
                request_id,
                head.path if head and head.path in _SURFACES else "",
                status,
                why,
                answer_bytes=len(body),
                traceparent=trace.decode("latin-1")[:64],
            )
        )


async def serve(
    reader: Reader,
    admissions: Admissions,
    config: Callable[[], GateConfig | None],
    sockets: Iterable[socket.socket],
    observer: Observer,
    resolve: Resolve,
    memory: Memory | None = None,
    read_large: ReadLarge = read_here,
    most_files: int | None = None,
) -> Server:
    """Serve clients from these sockets in the running loop.

    Args:
        reader: what a request means.
        admissions: who goes where and when; its `tick` is the caller's.
        config: what holds now; None before the first.
        sockets: bound, and not blocking; the server closes them.
        observer: who is told of every request.
        resolve: finds the address of another deployment's gate.
        memory: what clients may make the process hold; that of a usual container by default.
        read_large: reads large bodies; by default at once, as small ones.
        most_files: open files that clients' and engines' connections may take together.
    """
    loop = asyncio.get_running_loop()
    sweep = Sweep(loop)
    pods = Pods(loop, sweep)
    wiring = Wiring(
        *(reader, admissions, config, observer, resolve, pods, sweep, loop),
        read_large=read_large,
        exact=ExactCount(),
    )
    server = Server(wiring, memory or Memory(), most_files)
    await server.listen(sockets)
    return server


def _request_id(head: Head) -> str:
    return headers.request_id(head, lambda: secrets.token_hex(16))


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _nothing() -> None:
    """Nobody waits for an answer that is out."""
