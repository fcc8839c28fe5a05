"""Groups of layers that take blocks together, and how many blocks a request takes of each.

All groups draw from one pool of block ids; a block id is worth the bytes of the widest group.
Layers of full attention form one group, whatever their pages, since they share a block size.
Further kinds of attention bring groups of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.budget.kv_layers import KVLayer

# The engine's search for a length stops here; a pool that holds it is without limit.
LONGEST = 2**24


class Group(Protocol):
    """Layers of one kind that are given blocks together."""

    @property
    def block_size(self) -> int:
        """Tokens in a block of this group."""

    @property
    def bytes_per_block(self) -> tuple[int, ...]:
        """Bytes of one block on a GPU of each pipeline stage."""

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that a request of that many tokens takes; never falls with tokens."""


@dataclass(frozen=True)
class FullAttentionGroup:
    """Layers of full attention; decode context parallel divides a request's tokens."""

    block_size: int
    bytes_per_block: tuple[int, ...]
    context_parallel: int

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that hold every token of the request, rounded up to whole ones."""
        on_each_gpu = -(-tokens // self.context_parallel)
        return -(-on_each_gpu // self.block_size)


def build(
    stages: Sequence[tuple[KVLayer, ...]], context_parallel: int
) -> tuple[FullAttentionGroup, ...]:
    """Put the layers of all stages into groups."""
    block_size = next(layer.block_size for stage in stages for layer in stage)
    pages = tuple(sum(layer.page_bytes for layer in stage) for stage in stages)
    return (FullAttentionGroup(block_size, pages, context_parallel),)


def bytes_per_block(groups: Sequence[Group]) -> tuple[int, ...]:
    """Return what one block id costs a GPU of each pipeline stage."""
    return tuple(map(max, zip(*(group.bytes_per_block for group in groups), strict=True)))


def blocks_of(groups: Sequence[Group], tokens: int) -> int:
    """Return the blocks of all groups together that a request of `tokens` takes."""
    return sum(group.blocks_of(tokens) for group in groups)


def longest(groups: Sequence[Group], blocks: int, limit: int) -> int:
    """Return the longest request, up to `limit` tokens, that takes at most `blocks`; 0 if none."""
    if blocks_of(groups, 1) > blocks:
        return 0
    fits, ends = 1, limit + 1
    while ends - fits > 1:
        middle = (fits + ends) // 2
        if blocks_of(groups, middle) <= blocks:
            fits = middle
        else:
            ends = middle
    return fits
