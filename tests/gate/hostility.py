"""What tests of hostile clients share: a gate with one engine, and whether it is as before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.gate.engine import Engine, answers, completion, whole
from tests.gate.running import Gate, ask, eventually, post, running

HOST = "host: g\r\n"
POST = f"POST /v1/completions HTTP/1.1\r\n{HOST}"


@asynccontextmanager
async def gate_and_engine(**changes: Any) -> AsyncIterator[tuple[Gate, Engine]]:
    async with Engine(answers(whole(completion()))) as engine, running(engine, **changes) as gate:
        yield gate, engine


async def works(gate: Gate) -> None:
    """Check that the gate serves, and has nothing left from before."""
    assert (await ask(gate, post())).status == 200
    await gate.settled()
    await eventually(lambda: gate.told.open_connections == 0)
    assert gate.server.memory.bodies_bytes == gate.server.memory.buffered_bytes == 0
