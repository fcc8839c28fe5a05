"""Who holds what of which pod. Every change of a pod's book is made here, and undone by `close`."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import cast

from tidegate.api.gate_config import Deadlines, GateConfig, PoolName, SliceConfig
from tidegate.gate.core.blocks import BlockRule
from tidegate.gate.core.demand import Demand
from tidegate.gate.core.entry import LOOK_EVERY_TOKENS, Entry
from tidegate.gate.core.gate_share import GateShare
from tidegate.gate.core.lengths import Lengths
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.exchange import Pod, Scrape


class Ledger:
    """The books of all pods."""

    def __init__(self, lengths: Lengths, share: GateShare) -> None:
        self._lengths = lengths
        self._share = share
        self.books: dict[str, PodBook] = {}
        self._slices: dict[str, SliceConfig] = {}
        self._rules: dict[str, BlockRule] = {}
        self._headroom = GateConfig.model_fields["headroom"].default
        self._handover_seconds = Deadlines().drain
        self._untimed: list[tuple[float, int, Entry]] = []
        self._entries = 0

    # The pods

    def configure(self, config: GateConfig) -> None:
        """Take the slices' numbers."""
        slices = {part.name: part for part in config.slices}
        self._rules = {
            name: self._rules[name]
            if name in self._rules and self._slices[name].groups == part.groups
            else BlockRule(part.groups)
            for name, part in slices.items()
        }
        self._slices = slices
        self._headroom = config.headroom
        self._handover_seconds = config.deadlines.drain
        for book in self.books.values():
            self._assign(book)
            book.settle(self._headroom, self._share)

    def share_with(self, gates: int) -> None:
        """Take 1/N of every pod."""
        if self._share.divide(gates):
            for book in self.books.values():
                book.is_clear = False
        self._settle()

    def _settle(self) -> None:
        for book in self.books.values():
            book.settle(self._headroom, self._share)

    def endpoints(self, pool: PoolName, pods: Sequence[Pod]) -> None:
        """Open books of new pods, close those of pods that are gone and hold nothing."""
        named = {pod.name: pod for pod in pods}
        for name, book in list(self.books.items()):
            if book.pod.pool == pool and name not in named:
                book.is_present = False
                self._forget(book)
        for name, pod in named.items():
            book = self.books.get(name) or PodBook(pod)
            book.pod = pod
            book.is_present = True
            self._assign(book)
            book.settle(self._headroom, self._share)
            self.books[name] = book

    def _assign(self, book: PodBook) -> None:
        name = book.pod.slice_name
        book.belongs(self._slices.get(name), self._rules.get(name))

    def observe(self, pod: str, scrape: Scrape) -> None:
        """Correct a pod's book by its own metrics."""
        book = self.books.get(pod)
        if book is None:
            return
        known = book.peak_blocks
        gates = self._share.gates
        if gates > 1:  # what the others hold is not known here, only what they may
            known = max(known * gates, int(book.physical_blocks * self._headroom))
        begun = 0 if self._share.is_whole else _begun(book)
        book.correction.observe(scrape, known, begun, book.sequences)
        book.settle(self._headroom, self._share)

    def load(self, pod: Pod) -> float:
        """Return the share of a pod that is reserved."""
        book = self.books.get(pod.name)
        return book.load if book else 0.0

    def pool(self, pool: PoolName) -> Iterable[PodBook]:
        """The books of a pool's pods that may get more."""
        return (book for book in self.books.values() if book.pod.pool == pool and book.may_get_more)

    def largest(self, pool: PoolName) -> Iterable[tuple[BlockRule, int]]:
        """The block rules and sizes of the empty pods that there are or may be in a pool."""
        for book in self.books.values():
            if book.blocks is not None and book.pod.pool == pool:
                yield book.blocks, book.physical_blocks
        seen = {book.pod.slice_name for book in self.books.values()}
        for part in self._slices.values():
            if part.pool == pool and part.name not in seen:
                yield self._rules[part.name], part.kv_blocks

    # The seats

    def open(self, demand: Demand, pod: PodBook, prefill: PodBook | None, now: float) -> Entry:
        """Reserve what a request is expected to hold."""
        entry = Entry(demand, pod, prefill, now)
        entry.blocks, pod.requests[entry] = pod.needed(demand)
        pod.peak = None
        pod.reserved_blocks += entry.blocks
        pod.reserved_tokens += entry.tokens
        pod.sequences += demand.sequences
        pod.waiting_sequences += demand.sequences
        pod.visits += 1
        if prefill is not None:
            entry.prefill_blocks = prefill.blocks_of_prompt(demand)
            prefill.reserved_blocks += entry.prefill_blocks
            prefill.prompt_blocks += entry.prefill_blocks
            prefill.reserved_tokens += demand.prompt_tokens
            prefill.sequences += 1
            prefill.visits += 1
        self._await_prompt(entry, now)
        return entry

    def _await_prompt(self, entry: Entry, now: float) -> None:
        """Add the prompt to the backlog of the pod that prefills it.

        An answer that is not streamed tells nothing until it is whole: its prompt is taken to be
        done when it should be. Where no speed is known it is not counted.
        """
        book = entry.prompt_waits_at
        if book is None:
            return
        ask = entry.demand.ask
        if entry.prefill is None and not ask.streams and entry.demand.expected_tokens:
            speed = book.prefill.per_second
            if speed is None:
                entry.prompt_waits_at = None
                return
            due = now + (book.backlog_tokens + entry.demand.prompt_tokens) / speed
            self._entries += 1
            heappush(self._untimed, (due, self._entries, entry))
        if not book.backlog_requests:
            book.prefill.began(now)
        book.backlog_requests += 1
        book.backlog_tokens += entry.demand.prompt_tokens

    def prompt_done(self, entry: Entry, now: float, *, is_reached: bool = True) -> None:
        """Take a prompt out of the backlog; `is_reached` when it was prefilled."""
        book = entry.prompt_waits_at
        if book is None:
            return
        entry.prompt_waits_at = None
        if is_reached:
            book.prefill.reached(entry.demand.prompt_tokens, now)
        book.backlog_tokens -= entry.demand.prompt_tokens
        book.backlog_requests -= 1
        if not book.backlog_requests:
            book.prefill.rested()

    def leave_prefill(self, entry: Entry, now: float, *, is_reached: bool = True) -> None:
        """Give back a pair's prefill pod."""
        book = entry.prefill
        if book is None:
            return
        if entry.prompt_waits_at is book:
            self.prompt_done(entry, now, is_reached=is_reached)
        entry.prefill = None
        book.reserved_blocks -= entry.prefill_blocks
        book.prompt_blocks -= entry.prefill_blocks
        book.reserved_tokens -= entry.demand.prompt_tokens
        book.sequences -= 1
        book.visits -= 1
        entry.prefill_blocks = 0
        self._forget(book)

    def first_token(self, entry: Entry, now: float) -> None:
        """The answer begins."""
        if entry.has_token:
            return
        self.leave_prefill(entry, now)
        self.prompt_done(entry, now)
        entry.has_token = True
        entry.first_at = entry.looked_at = now
        entry.pod.waiting_sequences -= entry.demand.sequences

    def look(self, entry: Entry, now: float) -> None:
        """Follow a stream: book its growth, sample its speed."""
        pod, demand = entry.pod, entry.demand
        samples = demand.ask.samples
        made = entry.made_tokens
        if entry.has_token:
            # Tokens that came with the first took no time of their own.
            fresh = made - max(entry.looked_tokens, 1)
            if fresh > 0 and now > entry.looked_at and entry.looked_tokens:
                running = pod.sequences - pod.waiting_sequences
                pod.time_per_token.add(running, (now - entry.looked_at) * samples / fresh)
            entry.looked_at = now
            entry.looked_tokens = made
        entry.look_at = made + LOOK_EVERY_TOKENS * samples
        each = -(-made // samples)
        output = self._lengths.expected_of(demand.ask, demand.expected_tokens, each)
        tokens = demand.prompt_tokens + samples * output
        if tokens > entry.tokens:
            pod.reserved_tokens += tokens - entry.tokens
            entry.tokens = tokens
            blocks = pod.blocks_of(demand, output)
            pod.reserved_blocks += blocks - entry.blocks
            entry.blocks = blocks
        pod.requests[entry] = pod.growing(demand, each, output)
        pod.peak = None

    def close(self, entry: Entry, now: float, *, is_complete: bool) -> None:
        """Give everything back; a second call does nothing."""
        if not entry.is_open:
            return
        entry.is_open = False
        pod = entry.pod
        self.leave_prefill(entry, now, is_reached=is_complete)
        self.prompt_done(entry, now, is_reached=is_complete)
        del pod.requests[entry]
        pod.peak = None
        pod.reserved_blocks -= entry.blocks
        pod.reserved_tokens -= entry.tokens
        pod.sequences -= entry.demand.sequences
        if not entry.has_token:
            pod.waiting_sequences -= entry.demand.sequences
        pod.visits -= 1
        pod.stay.add(now - entry.began_at, entry.tokens)
        self._forget(pod)

    def tick(self, now: float) -> None:
        """Take prompts of whole answers as done in their time; drop corrections that are old."""
        while self._untimed and self._untimed[0][0] <= now:
            due, _, entry = heappop(self._untimed)
            self.prompt_done(entry, due)
            if entry.is_open and not entry.has_token:
                entry.has_token = True
                entry.pod.waiting_sequences -= entry.demand.sequences
        for book in self.books.values():
            if book.correction.expire(now):
                book.settle(self._headroom, self._share)
        if self._share.tick(now, self._handover_seconds):
            self._settle()

    def _forget(self, book: PodBook) -> None:
        """Drop the book of a pod that is gone and holds nothing more."""
        if not book.is_present and not book.visits and self.books.get(book.pod.name) is book:
            del self.books[book.pod.name]


def _begun(book: PodBook) -> int:
    """Return the blocks of a pod's requests that have begun to answer, so that they hold them."""
    return sum(
        growing.blocks for entry, growing in book.requests.items() if cast(Entry, entry).has_token
    )
