"""A whole gate, core and wire, in this process, in front of engines of any kind."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.gate.doubles import Told
from tests.gate.running import HasPort, config, eventually

from tidegate.api.gate_config import PoolName
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Pod
from tidegate.gate.wire import server

FLAGS = (
    *("--served-model-name", "tiny", "--max-model-len", "2048", "--block-size", "32"),
    *("--kv-cache-memory-bytes", "4M"),
)
SLICE = {
    "revision": "r1",
    "node_class": "cpu",
    "kv_blocks": 127,
    "kv_tokens": 4064,
    "groups": [{"block_tokens": 32}],
    "max_num_seqs": 64,
    "prefill_tokens_per_second": 20000.0,
}


@dataclass
class Gate:
    """A gate with its own core."""

    server: server.Server
    port: int
    admissions: Admissions
    told: Told

    def ejected(self) -> set[str]:
        view = self.admissions.view(asyncio.get_running_loop().time(), time.time())
        return {page.pod.name for page in view.pods if page.ejected}

    def reserved_blocks(self) -> int:
        return sum(p.reserved_blocks for p in self.admissions.view(0.0, 0.0).pods)

    async def settled(self) -> None:
        await eventually(lambda: self.server.in_flight == 0)
        assert self.reserved_blocks() == 0


@asynccontextmanager
async def gate(
    *engines: tuple[PoolName, HasPort], peers: Mapping[str, Gate] | None = None, **changes: Any
) -> AsyncIterator[Gate]:
    """Run a gate in front of engines; at its end the ledger must be empty.

    `peers` are the gates of other deployments, looked up at each shift.
    """
    others = {} if peers is None else peers
    pools = dict.fromkeys(pool for pool, _ in engines)
    told = {
        "max_model_len": 2048,
        "services": {pool: f"tiny-{pool}" for pool in pools},
        "revisions": [{"name": "r1", "weight": 1}],
        "slices": [{**SLICE, "name": f"tiny-{pool}", "pool": pool} for pool in pools],
        "slo": {"time_to_first_token": "2s"},
    }
    told_config = config(**told | changes)
    loop = asyncio.get_running_loop()
    admissions = Admissions(jitter=random.Random(0).random, choice=Choice())
    admissions.configure(told_config, loop.time())
    for pool in pools:
        pods = [
            Pod(f"{pool}-{n}", "127.0.0.1", double.port, pool, "r1", f"tiny-{pool}")
            for n, (where, double) in enumerate(engines)
            if where == pool
        ]
        admissions.endpoints(pool, pods, loop.time())
    observer = Told()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    serving = await server.serve(
        Reader(told_config, Keys()),
        admissions,
        lambda: told_config,
        [listening],
        observer,
        lambda to, _: ("127.0.0.1", others[to].port),
    )

    async def beat() -> None:
        while True:
            admissions.tick(loop.time(), time.time())
            await asyncio.sleep(0.05)

    beating = asyncio.create_task(beat())
    running = Gate(serving, listening.getsockname()[1], admissions, observer)
    try:
        yield running
        await running.settled()
    finally:
        beating.cancel()
        await serving.drain(0)
