"""The KV that an engine gives to and takes from others: both sides of the NIXL connector."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from e2e.double import logs, side_channel
from e2e.double.config import EngineConfig
from e2e.double.memory import Pool
from e2e.double.metrics import Metrics
from e2e.double.scheduler import Scheduler
from e2e.double.sequences import RemoteKV, Sequence
from e2e.double.side_channel import Client, Message, TransferFailed
from e2e.double.transfer import EngineKilled, Source


@dataclass(frozen=True)
class Fetched:
    """What came from another engine.

    Attributes:
        tokens: those that the fetched blocks stand for.
        blocks: their number, in blocks of this engine.
    """

    tokens: tuple[int, ...]
    blocks: int


class Exchange:
    """One engine's part in moving KV.

    Args:
        config: with the connector.
        pool: whose blocks are moved.
        scheduler: that owns them.
        metrics: where transfers are counted.
        source: how this engine names itself to decode engines.
    """

    def __init__(
        self,
        config: EngineConfig,
        pool: Pool,
        scheduler: Scheduler,
        metrics: Metrics,
        source: Source,
    ) -> None:
        connector, settings = config.connector, config.settings
        self.source = source
        self.recomputes = bool(connector and connector.recomputes)
        self._scheduler, self._metrics = scheduler, metrics
        self._digest = config.identity.digest()
        self._block_bytes = pool.block_bytes
        self._bytes_per_second = settings.transfer_bytes_per_second
        self._notes: set[asyncio.Task[bool]] = set()
        self._client = Client(
            config.identity,
            pool.block_tokens,
            timeout_seconds=settings.handshake_timeout_seconds,
            checks_compatibility=connector.checks_compatibility if connector else True,
        )

    async def listen(self) -> asyncio.Server:
        """Answer decode engines on the side channel.

        Raises:
            OSError: the port is taken.
        """
        return await side_channel.serve(self.source.host, self.source.port, self.answer)

    # --- the decode side

    async def fetch(self, sequence: Sequence) -> Fetched:
        """Fetch the blocks of a prompt that are missing here.

        Raises:
            TransferFailed: they cannot be fetched.
            EngineKilled: the prompt needs more blocks than the other engine names.
        """
        remote, size = sequence.remote, self._scheduler.cache.block_tokens
        assert remote is not None
        peer = await self._client.peer(remote)
        start = sequence.computed
        wanted = -(-(len(sequence.prompt) - start) // size)
        offered = -(-(len(remote.block_ids) * peer.block_tokens - start) // size)
        if wanted > offered:
            raise EngineKilled("RuntimeError: Worker failed with error ''")
        tokens = await self._client.fetch(remote)
        await asyncio.sleep(self.bytes_of(wanted) / self._bytes_per_second)
        if not await self._client.release(remote):
            self._metrics.transfer_problem("failed_notifications")
        return Fetched(tokens[start:], wanted)

    def bytes_of(self, blocks: int) -> int:
        """Return the size of some blocks."""
        return blocks * self._block_bytes

    def count_failure(self, failure: TransferFailed) -> None:
        """Log and count a failed fetch."""
        logs.error("worker.py:1105", f"NIXL transfer failure: {failure.cause}", process="Worker")
        self._metrics.transfer_problem("failed_transfers", failure.failed_transfers)
        self._metrics.transfer_problem("failed_notifications", failure.failed_notifications)

    def release(self, remote: RemoteKV) -> None:
        """Tell a prefill engine that its blocks will not be fetched."""
        note = asyncio.ensure_future(self._client.release(remote))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def heartbeat(self) -> None:
        """Keep the leases of prompts that wait here for a place."""
        while True:
            await asyncio.sleep(self._scheduler.lease_seconds / 6)
            for sequence in list(self._scheduler.waiting):
                if sequence.remote and sequence.is_remote_pending:
                    await self._client.heartbeat(sequence.remote)

    # --- the prefill side

    def answer(self, message: Message) -> Message:
        """Answer a decode engine."""
        cache, request_id = self._scheduler.cache, str(message.get("request_id"))
        match message.get("op"):
            case "handshake":
                return {
                    "engine_id": self.source.engine_id,
                    "digest": self._digest,
                    "block_tokens": cache.block_tokens,
                }
            case "pull":
                try:
                    return {"tokens": cache.contents(tuple(message["block_ids"]))}
                except IndexError as error:
                    return {"error": f"NIXL_ERR_INVALID_PARAM {error}"}
            case "release":
                if not cache.drop(request_id):
                    self._metrics.transfer_problem("notifications_after_expiry")
                return {}
            case "heartbeat":
                now = asyncio.get_running_loop().time()
                cache.extend(request_id, now + self._scheduler.lease_seconds * 2 / 3)
                return {}
        return {"error": f"unknown op {message.get('op')!r}"}

    def expire(self, now: float) -> None:
        """Free the blocks whose lease is over."""
        for request_id in self._scheduler.cache.expire(now):
            self._metrics.transfer_problem("kv_expired_reqs")
            logs.line(
                "WARNING",
                "worker.py:1730",
                f"Releasing expired KV blocks for request {request_id} which were retrieved by 0 "
                "remote worker(s) before lease expired.",
                process="Worker",
            )


def make_source(config: EngineConfig, host: str, port: int) -> Source:
    """Return where decode engines will find this engine's KV."""
    connector = config.connector
    return Source(
        engine_id=(connector.engine_id if connector else "") or str(uuid.uuid4()),
        host=host,
        port=port,
        tensor_parallel=config.tensor_parallel,
        pipeline_parallel=config.pipeline_parallel,
        has_generation=config.settings.vllm_version >= "0.33",
    )
