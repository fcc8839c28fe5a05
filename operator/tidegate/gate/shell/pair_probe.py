"""Tries whether pods of two revisions serve a request together, before a pair is said to work."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tidegate.api.gate_config import PoolName
from tidegate.gate.exchange import Pod
from tidegate.gate.shell.gate import Gate
from tidegate.gate.wire.probe import Probed

_MOST_AT_ONCE = 2
"""Probes take seats that the ledger does not know of: one token each, and few."""

Send = Callable[[Pod | None, Pod], Awaitable[Probed]]


class PairProbe:
    """Sends a request of one token through a pod of each revision, or through one unified pod."""

    def __init__(self, gate: Gate, send: Send) -> None:
        self._gate = gate
        self._send = send
        self._turn = asyncio.Semaphore(_MOST_AT_ONCE)

    async def probe(self, prefill: str, decode: str) -> dict[str, Any]:
        """Return what `POST /probe` answers; `prefill` is passed over where there is no pair."""
        config = self._gate.config()
        if config is None:
            return _failed("the gate has no configuration yet")
        try:
            first = self._pod("prefill", prefill) if config.is_pair else None
            second = self._pod("decode" if config.is_pair else "unified", decode)
        except LookupError as error:
            return _failed(str(error))
        async with self._turn:
            probed = await self._send(first, second)
        return {
            "ok": probed.is_ok,
            "prefill": first.name if first else None,
            "decode": second.name,
            "step": probed.step,
            "outcome": probed.outcome.value,
            "error": None if probed.is_ok else probed.message,
            "seconds": round(probed.seconds, 4),
        }

    def _pod(self, pool: PoolName, revision: str) -> Pod:
        found = self._gate.pods(pool, revision)
        if not found:
            raise LookupError(f"pool {pool} has no ready pod of revision {revision}")
        return random.choice(found)


def _failed(error: str) -> dict[str, Any]:
    return {"ok": False, "prefill": None, "decode": None, "error": error}
