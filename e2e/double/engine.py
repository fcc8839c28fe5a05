"""The engine process: drives the scheduler by the clock and hands tokens to their requests."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from e2e.double import logs, side_channel, transfer
from e2e.double.api_errors import EngineDead, overloaded
from e2e.double.blocks import BlockPool
from e2e.double.config import EngineConfig
from e2e.double.generation import Generator
from e2e.double.kv_cache import KVCache
from e2e.double.memory import Pool
from e2e.double.metrics import Metrics, Transfer
from e2e.double.scheduler import Output, Scheduler, Step
from e2e.double.sequences import FinishReason, RemoteKV, Sequence
from e2e.double.side_channel import Client, Message, TransferFailed
from e2e.double.timing import StepTimes
from e2e.double.transfer import EngineKilled, Source
from e2e.double.vocabulary import Vocabulary

IDLE_SECONDS = 0.5  # leases of an idle engine are checked this often


@dataclass(frozen=True)
class Chunk:
    """New tokens of a sequence and their text; `finish` on the last one."""

    tokens: tuple[int, ...]
    text: str
    finish: FinishReason | None


@dataclass(eq=False)
class Stream:
    """The way of tokens from the engine to a request."""

    sequence: Sequence
    choices: int
    queue: asyncio.Queue[Chunk | None] = field(default_factory=asyncio.Queue)
    pending: list[int] = field(default_factory=list)
    text: str = ""
    sent_chars: int = 0

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield the chunks up to the last.

        Raises:
            EngineDead: the engine died.
        """
        while True:
            chunk = await self.queue.get()
            if chunk is None:
                raise EngineDead
            yield chunk
            if chunk.finish is not None:
                return


class Engine:
    """One engine: scheduler, KV pool, metrics and, with a NIXL connector, its side channel."""

    def __init__(
        self, config: EngineConfig, pool: Pool, vocabulary: Vocabulary, source: Source
    ) -> None:
        settings, connector = config.settings, config.connector
        self.config, self.vocabulary, self.source = config, vocabulary, source
        self.metrics = Metrics(config, pool, time.time())
        self.moves_kv = bool(connector and connector.moves_kv)
        self.scheduler = Scheduler(
            limits=config.limits_for(pool),
            cache=KVCache(
                BlockPool(pool.block_count, is_caching=config.caches_prefixes),
                pool.block_tokens,
                keeps_contents=self.moves_kv,
            ),
            generator=Generator(vocabulary, settings.output_tokens),
            counts_external=connector is not None,
            lease_seconds=connector.lease_seconds if connector else 0.0,
        )
        self._block_bytes = pool.block_bytes
        self._times = StepTimes(
            settings.step_seconds, settings.sequence_seconds, settings.prefill_tokens_per_second
        )
        self._client = Client(
            config.identity,
            pool.block_tokens,
            timeout_seconds=settings.handshake_timeout_seconds,
            checks_compatibility=connector.checks_compatibility if connector else True,
        )
        self._streams: dict[str, Stream] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._notes: set[asyncio.Task[bool]] = set()
        self._wake = asyncio.Event()
        self.died = asyncio.Event()
        self.died_silently = False

    @property
    def is_dead(self) -> bool:
        """Whether the engine died."""
        return self.died.is_set()

    @property
    def open_count(self) -> int:
        """Sequences that are not finished."""
        return len(self._streams)

    # --- requests

    def check_admission(self, choices: int) -> None:
        """Refuse a request that is beyond a queue limit.

        Raises:
            ApiError: 503, with the limit's text.
            EngineDead: the engine died.
        """
        if self.is_dead:
            raise EngineDead
        most = self.config.max_queued_requests
        if most is not None and self.open_count + choices > most:
            self._refuse("max_num_queued_reqs")
        most_tokens = self.config.max_queued_tokens
        if most_tokens is not None and self._tokens_in_prefill() >= most_tokens:
            self._refuse("max_num_queued_tokens")

    def submit(self, sequence: Sequence, choices: int = 1) -> Stream:
        """Queue a sequence."""
        stream = self._streams[sequence.id] = Stream(sequence, choices)
        self.scheduler.add(sequence)
        self.metrics.update(self.scheduler)
        self._wake.set()
        return stream

    def abort(self, stream: Stream) -> None:
        """Give up a sequence, as its client is gone or the server ends."""
        sequence = stream.sequence
        if sequence.finish is not None:
            return
        if task := self._tasks.pop(sequence.id, None):
            task.cancel()
        if sequence.remote and (sequence.is_remote_pending or task):
            self.release_remote(sequence.remote)
        self.scheduler.abort(sequence)
        self._close(stream, self.now())

    def abort_all(self) -> None:
        """Give up all sequences."""
        for stream in list(self._streams.values()):
            self.abort(stream)
        self.metrics.update(self.scheduler)

    def release_remote(self, remote: RemoteKV) -> None:
        """Tell a prefill engine that its blocks will not be fetched."""
        note = asyncio.ensure_future(self._client.release(remote))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    def die(self, cause: str, *, is_silent: bool = False) -> None:
        """End the engine: all requests fail, and the process will."""
        if self.is_dead:
            return
        logs.error("core.py:1512", "EngineCore encountered a fatal error.")
        logs.error("core.py:1512", f"Traceback (most recent call last):\n{cause}")
        logs.error("async_llm.py:770", "AsyncLLM output_handler failed.", process="APIServer")
        self.died_silently = is_silent
        self.died.set()
        self._wake.set()
        for stream in () if is_silent else self._streams.values():
            stream.queue.put_nowait(None)

    # --- the busy loop

    def now(self) -> float:
        """Return the engine's clock in seconds."""
        return asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Step until the engine dies or the task is cancelled."""
        while not self.is_dead:
            self._expire()
            self._wake.clear()
            step = self.scheduler.schedule(self.now())
            for sequence in step.loads:
                self._tasks[sequence.id] = asyncio.create_task(self._load(sequence))
            self.metrics.update(self.scheduler)
            if step.work:
                await asyncio.sleep(self._times.seconds(step))
                self._finish_step(step)
            elif not step.preempted:
                await self._idle()

    def _finish_step(self, step: Step) -> None:
        if self.is_dead:
            return
        now = self.now()
        outputs = self.scheduler.complete(step, now)
        ready = sum(len(out.sequence.prompt) for out in outputs if out.is_first)
        self.metrics.step(ready, len(outputs))
        for output in outputs:
            self._deliver(output, now)
        self.metrics.update(self.scheduler)

    async def _idle(self) -> None:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    def _deliver(self, output: Output, now: float) -> None:
        sequence = output.sequence
        stream = self._streams[sequence.id]
        last = sequence.times.last_token
        if output.is_first:
            sequence.times.first_token = now
            self.metrics.first_token(sequence, now)
        self.metrics.tokens(1, None if last is None else now - last)
        sequence.times.last_token = now
        stream.pending.append(output.token)
        stream.text += self.vocabulary.decode([output.token])
        self._check_stop_strings(stream, now)
        if sequence.finish is not None:
            self._close(stream, now)
        elif output.is_first or len(stream.pending) >= self.config.stream_interval:
            self._send(stream)

    def _check_stop_strings(self, stream: Stream, now: float) -> None:
        for stop in stream.sequence.sampling.stop:
            place = stream.text.find(stop)
            if place >= 0:
                stream.text = stream.text[:place]
                self.scheduler.stop(stream.sequence, stop, now)
                return

    def _close(self, stream: Stream, now: float) -> None:
        del self._streams[stream.sequence.id]
        self.metrics.finished(stream.sequence, stream.choices, now)
        self._send(stream)

    def _send(self, stream: Stream) -> None:
        text = stream.text[stream.sent_chars :]
        stream.queue.put_nowait(Chunk(tuple(stream.pending), text, stream.sequence.finish))
        stream.sent_chars, stream.pending = max(stream.sent_chars, len(stream.text)), []

    # --- KV of other engines

    async def _load(self, sequence: Sequence) -> None:
        assert sequence.remote is not None
        started = self.now()
        try:
            tokens, moved_blocks = await self._fetch(sequence)
        except TransferFailed as failure:
            self._fail_load(sequence, failure)
        except EngineKilled as killed:
            self.die(killed.error, is_silent=killed.is_silent)
        else:
            moved = moved_blocks * self._block_bytes
            self.metrics.transferred(Transfer(self.now() - started, moved, 2 * moved_blocks))
            self.scheduler.finish_load(sequence, tokens)
        finally:
            self._tasks.pop(sequence.id, None)
            self._wake.set()

    async def _fetch(self, sequence: Sequence) -> tuple[tuple[int, ...], int]:
        """Return the tokens of the blocks that were missing here, and their number of blocks."""
        remote, size = sequence.remote, self.scheduler.cache.block_tokens
        assert remote is not None
        peer = await self._client.peer(remote)
        start = sequence.computed
        wanted = -(-(len(sequence.prompt) - start) // size)
        offered = -(-(len(remote.block_ids) * peer.block_tokens - start) // size)
        if wanted > offered:
            raise EngineKilled("RuntimeError: Worker failed with error ''")
        tokens = await self._client.fetch(remote)
        await asyncio.sleep(
            wanted * self._block_bytes / self.config.settings.transfer_bytes_per_second
        )
        if not await self._client.release(remote):
            self.metrics.transfer_problem("failed_notifications")
        return tokens[start:], wanted

    def _fail_load(self, sequence: Sequence, failure: TransferFailed) -> None:
        logs.error("worker.py:1105", f"NIXL transfer failure: {failure.cause}", process="Worker")
        self.metrics.transfer_problem("failed_transfers", failure.failed_transfers)
        self.metrics.transfer_problem("failed_notifications", failure.failed_notifications)
        connector = self.config.connector
        self.scheduler.fail_load(sequence, recompute=bool(connector and connector.recomputes))
        if sequence.finish is not None:
            self._close(self._streams[sequence.id], self.now())

    def answer(self, message: Message) -> Message:
        """Answer a decode engine on the side channel."""
        cache = self.scheduler.cache
        match message["op"]:
            case "handshake":
                return {
                    "engine_id": self.source.engine_id,
                    "digest": self.config.identity.digest(),
                    "block_tokens": cache.block_tokens,
                }
            case "pull":
                try:
                    return {"tokens": cache.contents(tuple(message["block_ids"]))}
                except IndexError as error:
                    return {"error": f"NIXL_ERR_INVALID_PARAM {error}"}
            case "release":
                if not cache.drop(message["request_id"]):
                    self.metrics.transfer_problem("notifications_after_expiry")
                self._wake.set()
                return {}
            case "heartbeat":
                extension = self.scheduler.lease_seconds * 2 / 3
                cache.extend(message["request_id"], self.now() + extension)
                return {}
        return {"error": f"unknown op {message['op']!r}"}

    async def heartbeat(self) -> None:
        """Keep the leases of prompts that wait here for a place."""
        while True:
            await asyncio.sleep(self.scheduler.lease_seconds / 6)
            for sequence in list(self.scheduler.waiting):
                if sequence.remote and sequence.is_remote_pending:
                    await self._client.heartbeat(sequence.remote)

    def _expire(self) -> None:
        for request_id in self.scheduler.cache.expire(self.now()):
            self.metrics.transfer_problem("kv_expired_reqs")
            logs.line(
                "WARNING",
                "worker.py:1730",
                f"Releasing expired KV blocks for request {request_id} which were retrieved by 0 "
                "remote worker(s) before lease expired.",
                process="Worker",
            )

    def _tokens_in_prefill(self) -> int:
        return sum(len(s.prompt) for s in self.scheduler.sequences() if not s.output)

    def _refuse(self, reason: str) -> None:
        self.metrics.refused(reason)
        raise overloaded(reason)


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


async def open_side_channel(engine: Engine) -> asyncio.Server:
    """Listen for decode engines.

    Raises:
        OSError: the port is taken.
    """
    return await side_channel.serve(engine.source.host, engine.source.port, engine.answer)


def sequence_answer(engine: Engine, sequence: Sequence) -> dict[str, object] | None:
    """Return the kv_transfer_params of a finished first step; None for other requests."""
    return transfer.answer(sequence, engine.source) if sequence.held_blocks else None
