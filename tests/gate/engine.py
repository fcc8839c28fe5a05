"""An engine on a real socket that answers as a test says: well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.api.gate_config import PoolName
from tidegate.gate.exchange import Pod


@dataclass
class Received:
    """A request as the engine got it."""

    line: str
    headers: dict[str, str]
    body: bytes
    raw_head: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
DONE = b"data: [DONE]\n\n"


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def token(text: str, finish_reason: str | None = None) -> bytes:
    return event(id="c", choices=[{"index": 0, "text": text, "finish_reason": finish_reason}])


def usage_event(prompt: int = 7, output: int = 3) -> bytes:
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}
    return event(id="c", choices=[], usage=usage)


def whole(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in more)
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n{lines}\r\n"
    ).encode() + body


def completion(finish_reason: str = "length", text: str = "abc", **more: Any) -> bytes:
    usage = {"prompt_tokens": 7, "total_tokens": 10, "completion_tokens": 3}
    choice = {"index": 0, "text": text, "finish_reason": finish_reason}
    return json.dumps({"id": "c", "choices": [choice], "usage": usage, **more}).encode()


def answers(*parts: bytes, pause: float = 0.0) -> Script:
    """Write these parts, each by itself."""

    async def script(_: Received, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    return script


def streams(*events: bytes, pause: float = 0.0, ends: bool = True) -> Script:
    """Stream these events, with `[DONE]` and the end of the chunks after them."""
    last = (chunk(DONE), b"0\r\n\r\n") if ends else ()
    return answers(STREAM_HEAD, *(chunk(one) for one in events), *last, pause=pause)


def then_resets(script: Script) -> Script:
    """Do this, then cut the connection."""

    async def cut(received: Received, writer: asyncio.StreamWriter) -> None:
        await script(received, writer)
        await asyncio.sleep(0.02)
        writer.transport.abort()

    return cut


async def hangs(_: Received, writer: asyncio.StreamWriter) -> None:
    """Never answer, until the gate hangs up."""
    await writer.wait_closed()


@dataclass
class Engine:
    """A listening engine; `script` may be changed at any time, or be a list used up in turn."""

    script: Script | list[Script]
    name: str = "pod-0"
    pool: PoolName = "unified"
    revision: str = "r1"
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def __aenter__(self) -> Engine:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Be gone: refuse connections and reset those there are."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0.001)

    def drop_idle(self) -> None:
        """Close the connections, as an engine does with those that were idle."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def pod(self) -> Pod:
        return Pod(self.name, "127.0.0.1", self.port, self.pool, self.revision, "slice")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, *lines = head.decode("latin-1").split("\r\n")[:-2]
                headers = {name.lower(): value for name, value in (x.split(": ") for x in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                received = Received(line, headers, body, head)
                self.received.append(received)
                script = self.script.pop(0) if isinstance(self.script, list) else self.script
                answer = asyncio.ensure_future(script(received, writer))
                gone = asyncio.ensure_future(_until_gone(reader))
                await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                if not answer.done():
                    answer.cancel()
                    break
                answer.result()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_connections -= 1
            self._writers.discard(writer)
            writer.transport.abort()


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.002)
