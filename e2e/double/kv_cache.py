"""Which blocks a sequence has: prefix hits, growth, what full blocks hold, and leases on them."""

from __future__ import annotations

from dataclasses import dataclass

from e2e.double.blocks import BlockPool, chain
from e2e.double.sequences import Sequence


@dataclass
class Held:
    """Blocks of a finished prefill that a decode engine may still fetch."""

    blocks: list[int]
    expires_at: float


class KVCache:
    """The KV of all sequences of one engine.

    Args:
        pool: the blocks.
        block_tokens: tokens of a block.
        keeps_contents: remember which tokens each block stands for, so that another engine can
            fetch them; a block keeps its content until it is written again.
    """

    def __init__(self, pool: BlockPool, block_tokens: int, *, keeps_contents: bool = False) -> None:
        self.pool = pool
        self.block_tokens = block_tokens
        self.held: dict[str, Held] = {}
        self.shortages = 0
        """Times that a sequence found too few blocks: it was preempted for it, or had to wait."""
        self._keeps_contents = keeps_contents
        self._contents: dict[int, tuple[int, ...]] = {}

    # --- a sequence's blocks

    def hits(self, sequence: Sequence) -> list[int]:
        """Return the cached blocks of a sequence's start; at least one token is left to compute."""
        self._extend_hashes(sequence, (sequence.length - 1) // self.block_tokens)
        return self.pool.lookup(sequence.hashes[: (sequence.length - 1) // self.block_tokens])

    def has_room(self, hits: list[int], tokens: int, *, kept_blocks: int = 0) -> bool:
        """Tell whether `tokens` tokens fit, `hits` of them cached, with some blocks kept free."""
        new = self._blocks_of(tokens) - len(hits)
        has_room = new + self.pool.count_free_of(hits) + kept_blocks <= self.pool.free_count
        self.shortages += not has_room
        return has_room

    def take(self, sequence: Sequence, hits: list[int]) -> None:
        """Start a sequence on cached blocks."""
        self.pool.take(hits)
        sequence.blocks = list(hits)
        sequence.computed = len(hits) * self.block_tokens

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence the blocks for its first `tokens` tokens, if they are free."""
        missing = self._blocks_of(tokens) - len(sequence.blocks)
        if missing > self.pool.free_count:
            self.shortages += 1
            return False
        if missing > 0:
            sequence.blocks += self.pool.allocate(missing)
        return True

    def store(self, sequence: Sequence, tokens: int) -> None:
        """Note `tokens` more computed tokens: full blocks can be found again."""
        size, before = self.block_tokens, sequence.computed
        sequence.computed += tokens
        full = sequence.computed // size
        self._extend_hashes(sequence, full)
        for index in range(before // size, full):
            self.pool.remember(sequence.blocks[index], sequence.hashes[index])
        if self._keeps_contents:
            for index in range(before // size, self._blocks_of(sequence.computed)):
                stop = min((index + 1) * size, sequence.computed)
                self._contents[sequence.blocks[index]] = sequence.slice(index * size, stop)

    def release(self, sequence: Sequence) -> None:
        """Take all blocks from a sequence."""
        self.pool.free(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0

    def contents(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tokens that a list of blocks stands for, stale ones included.

        Raises:
            IndexError: a block number is not one of the pool's.
        """
        if any(not 0 < block < self.pool.block_count for block in blocks):
            raise IndexError(f"block ids must be 1 to {self.pool.block_count - 1}: {blocks}")
        return tuple(token for block in blocks for token in self._contents.get(block, ()))

    # --- leases of finished prefills

    def hold(self, sequence: Sequence, expires_at: float) -> None:
        """Keep the blocks of a finished sequence until they are fetched or the lease ends."""
        self.held[sequence.id] = Held(sequence.blocks, expires_at)
        sequence.blocks = []

    def drop(self, request_id: str) -> bool:
        """Free held blocks; False where they are not held any more."""
        held = self.held.pop(request_id, None)
        if held is None:
            return False
        self.pool.free(held.blocks)
        return True

    def extend(self, request_id: str, expires_at: float) -> None:
        """Keep held blocks at least until a moment."""
        if held := self.held.get(request_id):
            held.expires_at = max(held.expires_at, expires_at)

    def expire(self, now: float) -> list[str]:
        """Free held blocks whose lease is over and return their request ids."""
        late = [request_id for request_id, held in self.held.items() if held.expires_at <= now]
        for request_id in late:
            self.drop(request_id)
        return late

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def _extend_hashes(self, sequence: Sequence, count: int) -> None:
        size, hashes = self.block_tokens, sequence.hashes
        for index in range(len(hashes), count):
            parent = hashes[-1] if hashes else sequence.cache_salt.encode()
            hashes.append(chain(parent, sequence.slice(index * size, (index + 1) * size)))
