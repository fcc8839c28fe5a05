"""Groups of layers that take blocks together, and how many blocks a request takes of each.

All groups draw from one pool of block ids; a block id is worth the bytes of the widest group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.budget.kv_spec import KVSpec
from tidegate.core.budget.reach import Reach

# The engine's search for a length stops here; a pool that holds it is without limit.
LONGEST = 2**24


@dataclass(frozen=True)
class Group:
    """Layers of one kind that are given blocks together.

    `bytes_per_block` is of one block on a GPU of each pipeline stage.
    """

    block_size: int
    bytes_per_block: tuple[int, ...]
    reach: Reach

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that a request of that many tokens takes; never falls with tokens."""
        return self.reach.blocks_of(tokens, self.block_size)


def build(
    specs: Sequence[KVSpec], stage_of: Sequence[int], stages: int, grouped: Sequence[Sequence[int]]
) -> tuple[Group, ...]:
    """Return the groups with what each GPU holds of them: the pages of its own stage's layers."""
    built = []
    for places in grouped:
        pages = [0] * stages
        for place in places:
            pages[stage_of[place]] += specs[place].page_bytes
        first = specs[places[0]]
        built.append(Group(first.block_size, tuple(pages), first.reach))
    return tuple(built)


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
