"""What the engine is told of one layer's cache: how large a block is, and what a request holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tidegate.core.budget.reach import AllTokens, Reach, States, Window


@dataclass(frozen=True)
class KVSpec:
    """The cache of one layer on one GPU: its block in tokens, and the bytes of a block (a page).

    `content` is what the page holds (heads, sizes, dtype), hashable: equal specs share a group.
    `dense_bytes` is the page without padding. `is_latent` pages cannot be padded.
    """

    reach: Reach
    block_size: int
    page_bytes: int
    dense_bytes: int
    content: object = None
    is_latent: bool = False

    @property
    def is_full(self) -> bool:
        """Tell whether a request holds blocks of all its tokens."""
        return isinstance(self.reach, AllTokens)

    def with_block(self, block_size: int) -> Self:
        """Return the spec with blocks of another size, without padding."""
        dense_bytes = self.dense_bytes * block_size // self.block_size
        return replace(self, block_size=block_size, page_bytes=dense_bytes, dense_bytes=dense_bytes)

    def padded(self, page_bytes: int) -> Self:
        """Return the spec with its page padded to so many bytes."""
        return replace(self, page_bytes=page_bytes)


def attention(
    reach: Reach, block_size: int, token_bytes: int, content: object, is_latent: bool = False
) -> KVSpec:
    """Return the spec of a layer that keeps `token_bytes` for each token."""
    page_bytes = block_size * token_bytes
    return KVSpec(reach, block_size, page_bytes, page_bytes, content, is_latent)


def are_alike(specs: Sequence[KVSpec]) -> bool:
    """Tell whether requests hold as many blocks of each of these, so that one table serves all."""
    first = specs[0]
    if any(spec.block_size != first.block_size for spec in specs):
        return False
    if isinstance(first.reach, States):
        return all(
            spec.reach == first.reach and spec.page_bytes == first.page_bytes for spec in specs
        )
    if isinstance(first.reach, Window) and first.is_latent:
        return all(spec.reach == first.reach and spec.is_latent for spec in specs)
    return all(spec.reach == first.reach for spec in specs)
