"""The engine process: drives the scheduler by the clock and hands tokens to their requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from e2e.double import logs
from e2e.double.api_errors import EngineDead, overloaded
from e2e.double.blocks import BlockPool
from e2e.double.config import EngineConfig
from e2e.double.exchange import Exchange
from e2e.double.generation import Generator
from e2e.double.kv_cache import KVCache
from e2e.double.memory import Pool
from e2e.double.metrics import Metrics, Transfer
from e2e.double.scheduler import Output, Scheduler, Step
from e2e.double.sequences import FinishReason, Sequence
from e2e.double.side_channel import TransferFailed
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
        self.config, self.vocabulary = config, vocabulary
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
        self._times = StepTimes(
            settings.step_seconds, settings.sequence_seconds, settings.prefill_tokens_per_second
        )
        self.exchange = Exchange(config, pool, self.scheduler, self.metrics, source)
        self._streams: dict[str, Stream] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
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
            self.exchange.release(sequence.remote)
        self.scheduler.abort(sequence)
        self._close(stream, self.now())

    def abort_all(self) -> None:
        """Give up all sequences."""
        for stream in list(self._streams.values()):
            self.abort(stream)
        self.metrics.update(self.scheduler)

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
            self.exchange.expire(self.now())
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
        started = self.now()
        try:
            fetched = await self.exchange.fetch(sequence)
        except TransferFailed as failure:
            self.exchange.count_failure(failure)
            self.scheduler.fail_load(sequence, recompute=self.exchange.recomputes)
            if sequence.finish is not None:
                self._close(self._streams[sequence.id], self.now())
        except EngineKilled as killed:
            self.die(killed.error, is_silent=killed.is_silent)
        else:
            moved = self.exchange.bytes_of(fetched.blocks)
            self.metrics.transferred(Transfer(self.now() - started, moved, 2 * fetched.blocks))
            self.scheduler.finish_load(sequence, fetched.tokens)
        finally:
            self._tasks.pop(sequence.id, None)
            self._wake.set()

    def _tokens_in_prefill(self) -> int:
        return sum(len(s.prompt) for s in self.scheduler.sequences() if not s.output)

    def _refuse(self, reason: str) -> None:
        self.metrics.refused(reason)
        raise overloaded(reason)
