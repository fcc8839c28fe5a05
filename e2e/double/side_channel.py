"""The side channel between a prefill and a decode engine: one line of JSON each way, over TCP.

The double's KV is the tokens that its blocks stand for, so a fetch really moves the content: blocks
of another prompt give another text, as on a real engine.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.double.connector import Identity
from e2e.double.sequences import RemoteKV

Message = dict[str, Any]
MAX_LINE_BYTES = 2**26


class TransferFailed(Exception):
    """KV could not be fetched.

    Args:
        cause: the line for the log.
        failed_transfers: what it adds to the counter of that name.
        failed_notifications: what it adds to the counter of that name.
    """

    def __init__(
        self, cause: str, failed_transfers: int = 1, failed_notifications: int = 0
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.failed_transfers = failed_transfers
        self.failed_notifications = failed_notifications


@dataclass(frozen=True)
class Peer:
    """A prefill engine that a decode engine has shaken hands with."""

    engine_id: str
    block_tokens: int


async def serve(host: str, port: int, answer: Callable[[Message], Message]) -> asyncio.Server:
    """Answer each line on a port by a function.

    Raises:
        OSError: the port is taken.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return await asyncio.start_server(talk, host, port, family=family, limit=MAX_LINE_BYTES)


async def ask(host: str, port: int, message: Message) -> Message:
    """Send one message and return the answer, however long it takes.

    Raises:
        OSError: nobody listens, or the peer went away before it answered.
    """
    reader, writer = await asyncio.open_connection(host, port, limit=MAX_LINE_BYTES)
    try:
        writer.write(json.dumps(message).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError(f"{host}:{port} closed the connection")
    reply: Message = json.loads(line)
    return reply


class Client:
    """The decode side: shakes hands once with each prefill engine, then fetches.

    Args:
        identity: this engine's part of the compatibility check.
        block_tokens: tokens of this engine's blocks.
        timeout_seconds: how long an unreachable engine is tried.
        checks_compatibility: whether a different configuration is refused.
    """

    def __init__(
        self,
        identity: Identity,
        block_tokens: int,
        *,
        timeout_seconds: float = 5.0,
        checks_compatibility: bool = True,
    ) -> None:
        self._digest = identity.digest()
        self._block_tokens = block_tokens
        self._timeout_seconds = timeout_seconds
        self._checks_compatibility = checks_compatibility
        self._peers: dict[str, Peer] = {}

    async def peer(self, remote: RemoteKV) -> Peer:
        """Return the engine that holds the KV.

        Raises:
            TransferFailed: it cannot be reached, is another one, or does not fit.
        """
        known = self._peers.get(remote.engine_id)
        if known is None:
            known = self._peers[remote.engine_id] = self._accept(remote, await self._shake(remote))
        return known

    async def fetch(self, remote: RemoteKV) -> tuple[int, ...]:
        """Return the tokens that the remote blocks stand for.

        Raises:
            TransferFailed: the engine is gone, or has no such blocks.
        """
        message = {"op": "pull", "block_ids": remote.block_ids}
        try:
            reply = await ask(remote.host, remote.port, message)
        except OSError as error:
            self._peers.pop(remote.engine_id, None)
            raise TransferFailed(
                f"transfer_failed: NIXL_ERR_REMOTE_DISCONNECT ({error})", 2, 1
            ) from error
        if "error" in reply:
            raise TransferFailed(f"transfer_setup_failed: {reply['error']}")
        return tuple(reply["tokens"])

    async def release(self, remote: RemoteKV) -> bool:
        """Tell the prefill engine that its blocks may go; False where it cannot be reached."""
        return await self._tell(remote, {"op": "release", "request_id": remote.request_id})

    async def heartbeat(self, remote: RemoteKV) -> bool:
        """Extend the lease of a prompt that still waits here."""
        return await self._tell(remote, {"op": "heartbeat", "request_id": remote.request_id})

    async def _tell(self, remote: RemoteKV, message: Message) -> bool:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await ask(remote.host, remote.port, message)
        except (OSError, TimeoutError):
            return False
        return True

    async def _shake(self, remote: RemoteKV) -> Message:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        while True:
            try:
                return await ask(remote.host, remote.port, {"op": "handshake"})
            except OSError as error:
                if loop.time() >= deadline:
                    cause = f"handshake_failed: {remote.host}:{remote.port}: {error}"
                    raise TransferFailed(cause, 2) from error
            await asyncio.sleep(min(0.2, self._timeout_seconds / 10))

    def _accept(self, remote: RemoteKV, reply: Message) -> Peer:
        if reply["engine_id"] != remote.engine_id:
            raise TransferFailed(
                f"Remote NIXL agent engine ID mismatch. Expected {remote.engine_id},"
                f"received {reply['engine_id']}."
            )
        if self._checks_compatibility and reply["digest"] != self._digest:
            raise TransferFailed(
                f"RuntimeError: NIXL compatibility hash mismatch. Local: {self._digest}, Remote: "
                f"{reply['digest']}. Prefill and decode instances have incompatible "
                "configurations. This may be due to: different vLLM versions, models, dtypes, KV "
                "cache layouts, attention backends, etc. Both instances must use identical "
                "configurations."
                'Disable this check using --kv-transfer-config \'{"kv_connector_extra_config": '
                '{"enforce_handshake_compat": false}}\''
            )
        block_tokens = int(reply["block_tokens"])
        if self._block_tokens % block_tokens:  # also where the local block is the smaller one
            raise TransferFailed(
                f"AssertionError: Local block size {self._block_tokens} is not divisible by remote "
                f"block size {block_tokens} or vice versa."
            )
        return Peer(remote.engine_id, block_tokens)
