"""A gate in this process on a real port, and a client that speaks raw bytes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.gate.doubles import Seats, Told
from tests.gate.engine import Engine

from tidegate.api.gate_config import GateConfig
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.wire import server
from tidegate.gate.wire.wiring import ReadLarge, read_here

PATIENCE_SECONDS = 5.0


def config(**changes: Any) -> GateConfig:
    told = {
        "namespace": "llm",
        "deployment": "tiny",
        "generation": 1,
        "models": ["tiny"],
        "max_model_len": 4096,
        "gate_service": "tiny",
        "services": {"unified": "tiny-engines"},
        **changes,
    }
    return GateConfig.model_validate(told)


@dataclass
class Gate:
    """A running gate with its doubles."""

    server: server.Server
    port: int
    seats: Seats
    told: Told
    config: GateConfig
    shifts_to: dict[str, tuple[str, int]] = field(default_factory=dict)

    async def settled(self) -> None:
        """Wait until nothing is in flight, and check that every seat was given back."""
        await eventually(lambda: self.server.in_flight == 0)
        assert self.seats.open == []
        assert self.seats.waiting == []
        assert len(self.seats.ends) == self.seats.given


@asynccontextmanager
async def running(
    *engines: Engine,
    most_files: int | None = None,
    read_large: ReadLarge = read_here,
    **changes: Any,
) -> AsyncIterator[Gate]:
    """Run a gate in front of these engines; checks at the end that nothing is leaked."""
    told_config = config(**changes)
    pods = [engine.pod for engine in engines]
    seats = Seats(
        pods=[pod for pod in pods if pod.pool != "prefill"],
        prefill=[pod for pod in pods if pod.pool == "prefill"],
    )
    told = Told()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    shifts_to: dict[str, tuple[str, int]] = {}
    serving = await server.serve(
        Reader(told_config, Keys()),
        seats,
        lambda: told_config,
        [listening],
        told,
        lambda to, port: shifts_to[to],
        read_large=read_large,
        most_files=most_files,
    )
    gate = Gate(serving, listening.getsockname()[1], seats, told, told_config, shifts_to)
    try:
        yield gate
        await gate.settled()
    finally:
        await serving.drain(0)
    assert gate.seats.open == []


async def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


def post(path: str = "/v1/completions", *headers: str, version: str = "1.1", **body: Any) -> bytes:
    """Write a request with a JSON body."""
    asked = json.dumps({"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 8, **body}).encode()
    lines = "".join(f"{line}\r\n" for line in headers)
    return (
        f"POST {path} HTTP/{version}\r\nhost: gate\r\ncontent-type: application/json\r\n"
        f"content-length: {len(asked)}\r\n{lines}\r\n"
    ).encode() + asked


@dataclass
class Answer:
    """An answer as it came over the socket."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The stream's events, `[DONE]` as text."""
        said = [one.removeprefix(b"data: ") for one in self.body.split(b"\n\n") if one]
        return ["[DONE]" if one == b"[DONE]" else json.loads(one) for one in said]


class HasPort(Protocol):
    """Something on a port of this machine."""

    port: int


class Client:
    """A connection to the gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, gate: HasPort) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, limit=2**24)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    def send(self, raw: bytes) -> None:
        self.writer.write(raw)

    async def answer(self, seconds: float = PATIENCE_SECONDS, *, to_head: bool = False) -> Answer:
        """Read one answer, as far as it goes."""
        async with asyncio.timeout(seconds):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            status = int(first.split()[1])
            pairs = [line.split(": ", 1) for line in lines]
            headers = {name.lower(): value for name, value in pairs}
            assert len(headers) == len(pairs), f"a header came twice: {pairs}"
            if to_head or status in (100, 204):
                return Answer(status, headers, b"", True)
            body, is_complete = await self._body(headers)
            return Answer(status, headers, body, is_complete)

    async def _body(self, headers: dict[str, str]) -> tuple[bytes, bool]:
        if "content-length" in headers:
            try:
                return await self.reader.readexactly(int(headers["content-length"])), True
            except asyncio.IncompleteReadError as error:
                return error.partial, False
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.read(), True
        chunks: list[bytes] = []
        try:
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                chunks.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b"".join(chunks), False
        return b"".join(chunks), True

    async def is_closed(self, seconds: float = PATIENCE_SECONDS) -> bool:
        """Tell whether the gate closes the connection, with nothing more said."""
        async with asyncio.timeout(seconds):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


async def ask(gate: HasPort, raw: bytes, seconds: float = PATIENCE_SECONDS) -> Answer:
    """Send one request on a connection of its own."""
    async with Client.to(gate) as client:
        client.send(raw)
        return await client.answer(seconds)
