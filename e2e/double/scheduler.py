"""Continuous batching over a paged KV pool. Pure: no clock, no I/O, no randomness.

Whoever drives it repeats two calls: `schedule(now)` says which sequences compute how many tokens
in the next step, `complete(step, now)` says that the step is done and returns the new tokens. The
order of decisions is that of vLLM's V1 scheduler: running sequences first, in order; when one of
them finds no block, the last (or least important) running sequence loses all of its blocks and
waits again; only a step without such a preemption admits waiting sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from e2e.double.generation import Generator
from e2e.double.kv_cache import KVCache
from e2e.double.sequences import FinishReason, Sequence
from e2e.double.vocabulary import END_TOKEN


@dataclass(frozen=True)
class Limits:
    """What a step may hold.

    Attributes:
        max_model_len: longest sequence, prompt and output, in tokens.
        max_sequences: sequences that run at once.
        max_batched_tokens: tokens computed in one step.
        long_prefill_threshold: most tokens of one prompt in one step while others are there; 0 for
            no such limit.
        watermark: share of the blocks that stay free when a waiting sequence is admitted while
            others run.
        is_chunked: whether a prompt may be computed in several steps.
        reserves_full_prompt: admit a prompt only where all of it fits.
        is_priority: order by priority (lower first), then arrival; else by arrival.
    """

    max_model_len: int = 4096
    max_sequences: int = 256
    max_batched_tokens: int = 2048
    long_prefill_threshold: int = 0
    watermark: float = 0.0
    is_chunked: bool = True
    reserves_full_prompt: bool = True
    is_priority: bool = False


@dataclass(frozen=True)
class Work:
    """A share of a step: a sequence and how many of its tokens are computed."""

    sequence: Sequence
    tokens: int
    is_prefill: bool


@dataclass(frozen=True)
class Step:
    """What the engine does next; `loads` start to fetch their KV and wait outside the batch."""

    work: tuple[Work, ...]
    loads: tuple[Sequence, ...]
    preempted: tuple[Sequence, ...]

    @property
    def tokens(self) -> int:
        """All tokens of the step."""
        return sum(work.tokens for work in self.work)

    @property
    def prefill_tokens(self) -> int:
        """Prompt (and recomputed) tokens of the step."""
        return sum(work.tokens for work in self.work if work.is_prefill)


@dataclass(frozen=True)
class Output:
    """A token of a sequence; `is_first` for the one that ends its prefill."""

    sequence: Sequence
    token: int
    is_first: bool


@dataclass
class Totals:
    """Counters since the start; tokens, but for `preemptions`."""

    preemptions: int = 0
    local_queries: int = 0
    local_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0


class _Batch:
    """The step in the making."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.work: dict[str, Work] = {}
        self.loads: list[Sequence] = []
        self.preempted: list[Sequence] = []

    def add(self, sequence: Sequence, tokens: int) -> None:
        is_decode = bool(sequence.output) and sequence.computed == sequence.length - 1
        self.work[sequence.id] = Work(sequence, tokens, is_prefill=not is_decode)
        self.budget -= tokens

    def remove(self, sequence: Sequence) -> None:
        if work := self.work.pop(sequence.id, None):
            self.budget += work.tokens


@dataclass
class Scheduler:
    """The queues of one engine.

    Attributes:
        counts_external: whether a KV connector is configured, so that its hits are counted.
        lease_seconds: how long the blocks of a finished prefill are kept for a decode engine.
        running: in the order of their admission.
        loading: wait for KV of another engine; they have their blocks.
        loaded: got that KV and wait for a place in the batch.
    """

    limits: Limits
    cache: KVCache
    generator: Generator
    counts_external: bool = False
    lease_seconds: float = 30.0
    running: list[Sequence] = field(default_factory=list)
    waiting: deque[Sequence] = field(default_factory=deque)
    loading: dict[str, Sequence] = field(default_factory=dict)
    loaded: deque[Sequence] = field(default_factory=deque)
    totals: Totals = field(default_factory=Totals)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its prompt and max_tokens fit max_model_len."""
        self.waiting.append(sequence)

    def sequences(self) -> Iterator[Sequence]:
        """All unfinished sequences."""
        yield from self.running
        yield from self.loaded
        yield from self.loading.values()
        yield from self.waiting

    # --- one step

    def schedule(self, now: float) -> Step:
        """Pick the work of the next step and give it its blocks."""
        batch = _Batch(self.limits.max_batched_tokens)
        self._continue_running(batch)
        if not batch.preempted:
            self._admit(batch, now)
        return Step(tuple(batch.work.values()), tuple(batch.loads), tuple(batch.preempted))

    def complete(self, step: Step, now: float) -> list[Output]:
        """Take a step as computed: cache full blocks, return new tokens, free what ended."""
        outputs: list[Output] = []
        for work in step.work:
            sequence = work.sequence
            if sequence.finish is not None:  # aborted while the step ran
                continue
            self.cache.store(sequence, work.tokens)
            if sequence.computed == sequence.length:
                outputs.append(self._generate(sequence, now))
        return outputs

    def _continue_running(self, batch: _Batch) -> None:
        position = 0
        while position < len(self.running) and batch.budget > 0:
            sequence = self.running[position]
            tokens = self._share(sequence, batch.budget)
            while not self.cache.grow(sequence, sequence.computed + tokens):
                victim = self._victim()
                position -= self.running.index(victim) < position
                self._preempt(victim, batch)
                if victim is sequence:
                    return
            batch.add(sequence, tokens)
            position += 1

    def _admit(self, batch: _Batch, now: float) -> None:
        while self.loaded or self.waiting:
            if batch.budget <= 0 or len(self.running) >= self.limits.max_sequences:
                return
            sequence = self.loaded[0] if self.loaded else self._first_waiting()
            if sequence.is_remote_pending:
                if not self._start_load(sequence, batch):
                    return
            elif self._start(sequence, batch):
                (self.loaded if self.loaded else self.waiting).remove(sequence)
                self.running.append(sequence)
            else:
                return
            if sequence.times.scheduled is None:
                sequence.times.scheduled = now

    def _start(self, sequence: Sequence, batch: _Batch) -> bool:
        """Give a waiting sequence its prefix hits and the blocks of its first chunk."""
        if not sequence.blocks:
            hits = self.cache.hits(sequence)
            left = sequence.length - len(hits) * self.cache.block_tokens
            tokens = self._cut(left, batch.budget)
            if tokens < left and not self.limits.is_chunked:
                return False
            is_all_needed = self.limits.reserves_full_prompt
            needed = sequence.length if is_all_needed else sequence.length - left + tokens
            if not self.cache.has_room(hits, needed, kept_blocks=self._kept_blocks(batch)):
                return False
            self._take_hits(sequence, hits)
        tokens = self._share(sequence, batch.budget)
        if not self.cache.grow(sequence, sequence.computed + tokens):
            return False
        batch.add(sequence, tokens)
        return True

    def _start_load(self, sequence: Sequence, batch: _Batch) -> bool:
        """Reserve the blocks of a whole prompt whose KV another engine holds."""
        hits = self.cache.hits(sequence)
        length = len(sequence.prompt)
        if not self.cache.has_room(hits, length, kept_blocks=self._kept_blocks(batch)):
            return False
        self._take_hits(sequence, hits)
        self.cache.grow(sequence, length)
        sequence.external_tokens = length - sequence.computed
        sequence.is_remote_pending = False
        self.totals.external_hits += sequence.external_tokens
        self.waiting.remove(sequence)
        self.loading[sequence.id] = sequence
        batch.loads.append(sequence)
        return True

    # --- KV of other engines

    def finish_load(self, sequence: Sequence, fetched: tuple[int, ...]) -> None:
        """Take the fetched KV of a prompt: the tokens that the fetched blocks stand for."""
        if self.loading.pop(sequence.id, None) is None:  # aborted while it was fetched
            return
        start, length = sequence.computed, len(sequence.prompt)
        if fetched[: length - start] != sequence.prompt[start:]:
            wrong = (*sequence.context[:start], *fetched, *sequence.context)
            sequence.context = wrong[:length]
            del sequence.hashes[start // self.cache.block_tokens :]
        self.cache.store(sequence, length - start)
        sequence.computed -= 1  # the last token is computed again to get the first output
        self.loaded.append(sequence)

    def fail_load(self, sequence: Sequence, *, recompute: bool) -> None:
        """End a sequence whose KV could not be fetched, or let it compute its prompt here."""
        if self.loading.pop(sequence.id, None) is None:
            return
        self.cache.release(sequence)
        sequence.external_tokens = 0
        if recompute:
            self.waiting.appendleft(sequence)
        else:
            sequence.finish = FinishReason.ERROR

    # --- the end of a sequence

    def abort(self, sequence: Sequence) -> None:
        """Take a sequence out wherever it is."""
        if sequence.finish is not None:
            return
        sequence.finish = FinishReason.ABORT
        self.loading.pop(sequence.id, None)
        for queue in (self.running, self.loaded, self.waiting):
            if sequence in queue:
                queue.remove(sequence)
        self.cache.release(sequence)

    def stop(self, sequence: Sequence, stop_string: str, now: float) -> None:
        """End a sequence whose text holds one of its stop strings."""
        if sequence.finish is None:
            sequence.stop_reason = stop_string
            self._finish(sequence, FinishReason.STOP, now)

    def _generate(self, sequence: Sequence, now: float) -> Output:
        if sequence.seed is None:
            sequence.seed = self.generator.seed(sequence.context, sequence.sampling)
        token = self.generator.token(sequence.seed, len(sequence.output), sequence.sampling)
        sequence.output.append(token)
        reason = self._reason(sequence, token)
        if reason is not None:
            self._finish(sequence, reason, now)
        return Output(sequence, token, is_first=len(sequence.output) == 1)

    def _reason(self, sequence: Sequence, token: int) -> FinishReason | None:
        sampling, made = sequence.sampling, len(sequence.output)
        if made > sampling.min_tokens:
            if token == END_TOKEN and not sampling.ignore_eos:
                return FinishReason.STOP
            if token in sampling.stop_token_ids:
                sequence.stop_reason = token
                return FinishReason.STOP
        if made >= sampling.max_tokens or sequence.length >= self.limits.max_model_len:
            return FinishReason.LENGTH
        return None

    def _finish(self, sequence: Sequence, reason: FinishReason, now: float) -> None:
        self.running.remove(sequence)
        sequence.finish = reason
        if sequence.hold:
            sequence.held_blocks = tuple(sequence.blocks)
            self.cache.hold(sequence, now + self.lease_seconds)
        else:
            self.cache.release(sequence)

    # --- parts of the decisions

    def _take_hits(self, sequence: Sequence, hits: list[int]) -> None:
        self.cache.take(sequence, hits)
        if sequence.preemptions:  # was counted when it was first admitted
            return
        sequence.local_hit_tokens = sequence.computed
        self.totals.local_queries += len(sequence.prompt)
        self.totals.local_hits += sequence.computed
        if self.counts_external:
            self.totals.external_queries += len(sequence.prompt) - sequence.computed

    def _preempt(self, victim: Sequence, batch: _Batch) -> None:
        self.running.remove(victim)
        self.cache.release(victim)
        batch.remove(victim)
        batch.preempted.append(victim)
        victim.preemptions += 1
        self.totals.preemptions += 1
        self.waiting.appendleft(victim)

    def _victim(self) -> Sequence:
        return max(self.running, key=_rank) if self.limits.is_priority else self.running[-1]

    def _first_waiting(self) -> Sequence:
        return min(self.waiting, key=_rank) if self.limits.is_priority else self.waiting[0]

    def _kept_blocks(self, batch: _Batch) -> int:
        return int(self.limits.watermark * self.cache.pool.block_count) if batch.work else 0

    def _share(self, sequence: Sequence, budget: int) -> int:
        return self._cut(sequence.length - sequence.computed, budget)

    def _cut(self, tokens: int, budget: int) -> int:
        threshold = self.limits.long_prefill_threshold
        is_alone = len(self.running) + len(self.waiting) + len(self.loaded) <= 1
        if 0 < threshold < tokens and not is_alone:
            tokens = threshold
        return min(tokens, budget)


def _rank(sequence: Sequence) -> tuple[int, float]:
    return sequence.priority, sequence.times.arrived
