"""How long answers are: learned from real ones, since clients ask for far more than they use."""

from tidegate.gate.core.samples import LateMean
from tidegate.gate.exchange import Ask, Surface

FIRST_GUESS_TOKENS = 256
"""Until an answer was seen: about the mean answer in public chat traces (ShareGPT: 200 to 300)."""
FLOOR_SHARE = 0.5
"""An answer that runs on is expected to make at least this share of the mean further: lognormal
lengths, as real ones are, have about half of their mean to go wherever they are."""
MEMORY_ANSWERS = 127
"""Answers that are looked back on, so that a change of the traffic is followed."""
TRUSTED_ANSWERS = 8
"""Answers of one kind that weigh as much as all others of its surface."""
KINDS = 24

WITHOUT_OUTPUT = frozenset({Surface.EMBEDDINGS, Surface.TOKENIZE, Surface.MODELS})


class Lengths:
    """Output tokens of an answer, by surface and by the prompt's size (powers of four)."""

    def __init__(self) -> None:
        self._surfaces: dict[Surface, LateMean] = {}
        self._kinds: dict[tuple[Surface, int], LateMean] = {}

    def expected(self, ask: Ask) -> int:
        """Return the output tokens that one answer to this request is expected to have.

        No fewer than its client demands: such an answer is sure to be longer than others.
        """
        limit = ask.output_limit
        if limit <= 0 or ask.surface in WITHOUT_OUTPUT:
            return 0
        return max(1, min(limit, max(round(self._mean(ask)), ask.least_expected)))

    def expected_of(self, ask: Ask, expected_tokens: int, made_tokens: int) -> int:
        """Return the output tokens that are expected of an answer that has made some.

        What was expected at first, and at least half of that further.
        """
        least = made_tokens + max(1, round(expected_tokens * FLOOR_SHARE))
        return max(made_tokens, min(ask.output_limit, max(expected_tokens, least)))

    def learn(self, ask: Ask, output_tokens: float) -> None:
        """Take note of an answer that came to its own end; tokens of one sample."""
        surface = ask.surface
        if surface in WITHOUT_OUTPUT:
            return
        kind = (surface, _kind(ask))
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            self._surfaces.setdefault(surface, LateMean(MEMORY_ANSWERS))
            of_kind = self._kinds[kind] = LateMean(MEMORY_ANSWERS)
        self._surfaces[surface].add(output_tokens)
        of_kind.add(output_tokens)

    def _mean(self, ask: Ask) -> float:
        surface = self._surfaces.get(ask.surface)
        if surface is None or surface.value is None:
            return FIRST_GUESS_TOKENS
        kind = self._kinds.get((ask.surface, _kind(ask)))
        if kind is None or kind.value is None:
            return surface.value
        own = min(len(kind), TRUSTED_ANSWERS) / TRUSTED_ANSWERS
        return own * kind.value + (1.0 - own) * surface.value


def _kind(ask: Ask) -> int:
    return min((ask.prompt_tokens // ask.prompts).bit_length() >> 1, KINDS)
