"""How many blocks a request holds of a layer: what the layer attends to decides it.

The engine plans for the most that a request can hold at once. Blocks outside of a window are given
back only when the step that used them is settled, so tokens in flight count beside the window.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AllTokens:
    """Every token so far; decode context parallel divides them over GPUs."""

    context_parallel: int = 1

    def blocks_of(self, tokens: int, block_size: int) -> int:
        """Return the blocks that a request of `tokens` holds, rounded up to whole ones."""
        return _ceil(_ceil(tokens, self.context_parallel), block_size)


@dataclass(frozen=True)
class Window:
    """The last `window` tokens, those in flight, and `retained` ones that a draft reads again."""

    window: int
    in_flight: int
    retained: int = 0

    def blocks_of(self, tokens: int, block_size: int) -> int:
        """Return the blocks held: one more, since a window starts anywhere in a block."""
        return _ceil(min(self.window - 1 + self.retained + self.in_flight, tokens), block_size) + 1


@dataclass(frozen=True)
class Chunk:
    """The tokens of the current chunk, and those in flight."""

    chunk: int
    in_flight: int

    def blocks_of(self, tokens: int, block_size: int) -> int:
        """Return the blocks that a request of `tokens` holds."""
        return _ceil(min(self.chunk + self.in_flight, tokens), block_size)


@dataclass(frozen=True)
class States:
    """A number of states that does not depend on the length."""

    count: int

    def blocks_of(self, tokens: int, block_size: int) -> int:
        """Return the blocks that any request holds: each is one state."""
        return self.count


Reach = AllTokens | Window | Chunk | States


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
