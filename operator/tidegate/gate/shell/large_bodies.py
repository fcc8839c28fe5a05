"""Reads large bodies in a process of its own, so that no token waits for a long prompt.

Eight MiB of JSON take a tenth of a second of calls that keep Python's lock, so a thread would not
help. The process is started for the first large body and ends when none came for a while. What
kills it, such as too little memory, fails one request and not the gate.
"""

import asyncio
import logging
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import replace
from typing import Final

from tidegate.gate.exchange import Ask, Reading, Refusal, Why
from tidegate.gate.shell.body_process import AS_IT_CAME, LENGTH, LENGTHS
from tidegate.gate.wire.memory import Memory

READ_SECONDS: Final = 30.0
"""For one body, the start of the process included."""
IDLE_SECONDS: Final = 60.0
_PROGRAM: Final = "tidegate.gate.shell.body_process"
_ANSWER_BYTES: Final = 2**26
_UNREADABLE: Final = Refusal(
    503,
    Why.QUEUE_FULL,
    "The body could not be read now. Try again in 1 s.",
    "service_unavailable_error",
    retry_after_seconds=1,
)

_LOG = logging.getLogger(__name__)


class LargeBodies:
    """One process, and one body at a time."""

    def __init__(self, memory: Memory, idle_seconds: float = IDLE_SECONDS) -> None:
        self._memory = memory
        self._idle_seconds = idle_seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._resting: asyncio.TimerHandle | None = None
        self._reads: set[asyncio.Task[Ask | Refusal]] = set()

    async def read(self, reading: Reading, body: bytes) -> Ask | Refusal:
        """Read a body; whoever asked may leave meanwhile, the process is not disturbed by it.

        Who leaves before it is its turn takes the body along. What the process has begun it ends:
        till then that one body is held, and counted, although its client gave the room back.
        """
        await self._turn.acquire()
        task = asyncio.create_task(self._in_turn(reading, body))
        self._reads.add(task)
        task.add_done_callback(self._is_read)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._keep(len(body), task)
            raise

    async def close(self) -> None:
        """End the process, and whatever it reads."""
        for task in self._reads:
            task.cancel()
        await self._end()

    def _keep(self, body_bytes: int, task: asyncio.Task[Ask | Refusal]) -> None:
        if not task.done():
            self._memory.hold(body_bytes)
            task.add_done_callback(lambda _: self._memory.let_go(body_bytes))

    def _is_read(self, task: asyncio.Task[Ask | Refusal]) -> None:
        self._reads.discard(task)
        self._turn.release()

    async def _in_turn(self, reading: Reading, body: bytes) -> Ask | Refusal:
        if self._resting is not None:
            self._resting.cancel()
        try:
            async with asyncio.timeout(READ_SECONDS):
                said = await self._ask(reading, body)
        except (OSError, EOFError, TimeoutError) as error:
            _LOG.error("a large body was not read", extra={"error": repr(error)})
            await self._end()
            return _UNREADABLE
        loop = asyncio.get_running_loop()
        self._resting = loop.call_later(self._idle_seconds, self._rest)
        if isinstance(said, Ask) and said.body == AS_IT_CAME:
            return replace(said, body=body)
        return said

    async def _ask(self, reading: Reading, body: bytes) -> Ask | Refusal:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        told = pickle.dumps(reading, pickle.HIGHEST_PROTOCOL)
        process.stdin.writelines((LENGTHS.pack(len(told), len(body)), told, body))
        await process.stdin.drain()
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        said: Ask | Refusal = pickle.loads(await process.stdout.readexactly(length))
        return said

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _PROGRAM), stdin=PIPE, stdout=PIPE, limit=_ANSWER_BYTES
            )
        return self._process

    def _rest(self) -> None:
        """Nothing came for a while: close its input, at which it ends by itself."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _end(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
