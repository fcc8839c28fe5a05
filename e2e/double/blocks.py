"""The paged KV pool: blocks, the prefix cache over them, and least recently used eviction.

Block 0 is the null block and is never handed out. A block that no sequence uses stays findable by
its hash until it is needed for something else, so cached blocks count as free.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b


def chain(parent: bytes, tokens: Sequence[int]) -> bytes:
    """Return the hash of a full block after the block chain `parent`."""
    return blake2b(parent + array("Q", tokens).tobytes(), digest_size=16).digest()


class BlockPool:
    """KV blocks of one engine.

    Args:
        block_count: all blocks, the null block included.
        is_caching: whether full blocks can be found again by their hash.
    """

    def __init__(self, block_count: int, *, is_caching: bool = True) -> None:
        if block_count < 2:
            raise ValueError(
                f"block_count must be at least 2 (one is the null block): {block_count}"
            )
        self.block_count = block_count
        self.peak_used = 0
        """The most blocks that sequences ever used at once."""
        self._is_caching = is_caching
        # Blocks from `_first_unused` on were never used; listing them all would take memory.
        self._first_unused = 1
        self._references: dict[int, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict()
        self._by_hash: dict[bytes, int] = {}
        self._hashes: dict[int, bytes] = {}

    @property
    def free_count(self) -> int:
        """Blocks that no sequence uses."""
        return len(self._free) + self.block_count - self._first_unused

    @property
    def usage(self) -> float:
        """Share of the usable blocks that sequences use, 0 to 1."""
        return 1 - self.free_count / (self.block_count - 1)

    def lookup(self, hashes: Sequence[bytes]) -> list[int]:
        """Return the cached blocks of the longest known prefix of a hash chain."""
        found: list[int] = []
        for block_hash in hashes:
            block = self._by_hash.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def count_free_of(self, blocks: Sequence[int]) -> int:
        """Count the blocks of a list that taking them would remove from the free ones."""
        return sum(block not in self._references for block in blocks)

    def take(self, blocks: Sequence[int]) -> None:
        """Add a user to blocks that `lookup` found."""
        for block in blocks:
            if block not in self._references:
                del self._free[block]
            self._references[block] = self._references.get(block, 0) + 1
        self.peak_used = max(self.peak_used, len(self._references))

    def allocate(self, count: int) -> list[int]:
        """Hand out the blocks that were unused for longest; their cached content is forgotten.

        Raises:
            ValueError: there are fewer free blocks.
        """
        if count > self.free_count:
            raise ValueError(f"{count} blocks wanted, {self.free_count} free")
        blocks = [self._pop() for _ in range(count)]
        self._references.update(dict.fromkeys(blocks, 1))
        self.peak_used = max(self.peak_used, len(self._references))
        return blocks

    def free(self, blocks: Sequence[int]) -> None:
        """Drop one user of each block; the tail of a sequence is evicted before its head."""
        for block in reversed(blocks):
            users = self._references.get(block, 0)
            if users == 0:
                raise ValueError(f"block {block} freed more often than taken")
            if users > 1:
                self._references[block] = users - 1
            else:
                del self._references[block]
                self._free[block] = None

    def remember(self, block: int, block_hash: bytes) -> None:
        """Make a full block findable, unless another block holds the same content."""
        if self._is_caching and block_hash not in self._by_hash and block not in self._hashes:
            self._by_hash[block_hash] = block
            self._hashes[block] = block_hash

    def _pop(self) -> int:
        if self._first_unused < self.block_count:
            self._first_unused += 1
            return self._first_unused - 1
        block, _ = self._free.popitem(last=False)
        old = self._hashes.pop(block, None)
        if old is not None:
            del self._by_hash[old]
        return block
