"""What the double generates: text that follows from the prompt alone.

The same context gives the same text on every instance and after every preemption. A context that
was loaded from the wrong KV blocks gives another text, as on a real engine.
"""

from __future__ import annotations

import math
import struct
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.double.vocabulary import END_TOKEN, Vocabulary


@dataclass(frozen=True)
class Sampling:
    """What one sequence asks of the engine."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    variant: int = 0  # 0 for greedy; sampled choices of one prompt differ by it


@dataclass(frozen=True)
class Generator:
    """Picks the next token of a context.

    Attributes:
        vocabulary: the tokens.
        mean_output_tokens: mean of the geometric length after which a sequence ends by itself;
            None to go on until max_tokens.
    """

    vocabulary: Vocabulary
    mean_output_tokens: float | None = None

    def seed(self, context: Sequence[int], sampling: Sampling) -> int:
        """Return the number that stands for a context and a choice of it."""
        return zlib.crc32(array("Q", context).tobytes(), sampling.variant)

    def token(self, seed: int, position: int, sampling: Sampling) -> int:
        """Return the token at an output position (0 is the first)."""
        ends_itself = self.mean_output_tokens is not None and not sampling.ignore_eos
        if ends_itself and position + 1 >= max(self._length(seed), sampling.min_tokens + 1):
            return END_TOKEN
        return self.vocabulary.word(zlib.crc32(struct.pack("<II", seed, position)))

    def _length(self, seed: int) -> int:
        mean = self.mean_output_tokens
        assert mean is not None
        if mean <= 1:
            return 1
        uniform = (zlib.crc32(b"length", seed) + 0.5) / 2**32
        return 1 + math.floor(math.log(uniform) / math.log(1 - 1 / mean))
