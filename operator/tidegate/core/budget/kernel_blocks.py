"""Which block sizes a backend's kernels take: some sizes, or every multiple of one.

The engine splits a block into kernel blocks, so any multiple of a size that is taken is fine too.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KernelBlocks:
    """The sizes in tokens that kernels take as they are, and the step of a range without end."""

    sizes: tuple[int, ...] = ()
    step: int | None = None

    @property
    def _smallest_of_each(self) -> tuple[int, ...]:
        return self.sizes if self.step is None else (*self.sizes, self.step)

    @property
    def smallest(self) -> int:
        """The smallest size."""
        return min(self._smallest_of_each)

    def takes(self, block_size: int) -> bool:
        """Tell whether blocks of this size can be split into kernel blocks."""
        return any(block_size % size == 0 for size in self._smallest_of_each)

    def largest_within(self, tokens: int) -> int:
        """Return the largest size up to `tokens`, or the smallest where none is that small."""
        sizes = list(self.sizes)
        if self.step is not None:
            sizes.append(max(self.step, tokens // self.step * self.step))
        return max((size for size in sizes if size <= tokens), default=min(sizes))

    def shared_with(self, other: "KernelBlocks") -> "KernelBlocks":
        """Return the sizes that both take."""
        step = None
        if self.step is not None and other.step is not None:
            step = math.lcm(self.step, other.step)
        sizes = [size for size in self.sizes if size in other.sizes]
        sizes += [size for size in self.sizes if other.step and size % other.step == 0]
        sizes += [size for size in other.sizes if self.step and size % self.step == 0]
        return KernelBlocks(tuple(dict.fromkeys(sizes)), step)


def smallest_for_all(blocks: Sequence[KernelBlocks]) -> int | None:
    """Return the smallest block that each of several backends takes, None if there is none."""
    choices = itertools.product(
        *((*one.sizes, one.step) if one.step else one.sizes for one in blocks)
    )
    candidates = sorted({math.lcm(*(size for size in sizes if size)) for sizes in choices})
    return next((size for size in candidates if all(one.takes(size) for one in blocks)), None)
