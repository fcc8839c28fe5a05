"""How long answers are: learned from real ones, since clients ask for far more than they use."""

from tidegate.gate.exchange import Ask, Surface

FIRST_GUESS_TOKENS = 256.0
"""Until an answer was seen: about the mean answer in public chat traces (ShareGPT: 200 to 300)."""
FLOOR_SHARE = 0.25
"""An answer that runs on is expected to make at least this share of the mean further."""
MEMORY_ANSWERS = 128
"""Answers that the mean looks back on, so that it follows a change of the traffic."""
TRUSTED_ANSWERS = 8
"""Answers of one kind that weigh as much as all others of its surface."""
KINDS = 24

WITHOUT_OUTPUT = frozenset({Surface.EMBEDDINGS, Surface.TOKENIZE, Surface.MODELS})


class _Mean:
    """A mean that forgets."""

    __slots__ = ("seen", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.seen = 0

    def add(self, value: float) -> None:
        self.seen += 1
        self.value += (value - self.value) / min(self.seen, MEMORY_ANSWERS)


class Lengths:
    """Mean output tokens of an answer, by surface and by the prompt's size (powers of four)."""

    def __init__(self) -> None:
        self._surfaces: dict[Surface, _Mean] = {}
        self._kinds: dict[Surface, list[_Mean]] = {}

    def expected(self, ask: Ask) -> int:
        """Return the output tokens that one answer to this request is expected to have."""
        if ask.output_limit <= 0 or ask.surface in WITHOUT_OUTPUT:
            return 0
        return max(1, min(ask.output_limit, round(self._mean(ask))))

    def learn(self, ask: Ask, output_tokens: float) -> None:
        """Take note of an answer that came to its own end; tokens of one sample."""
        if ask.surface in WITHOUT_OUTPUT:
            return
        if ask.surface not in self._surfaces:
            self._surfaces[ask.surface] = _Mean()
            self._kinds[ask.surface] = [_Mean() for _ in range(KINDS)]
        self._surfaces[ask.surface].add(output_tokens)
        self._kinds[ask.surface][_kind(ask)].add(output_tokens)

    def _mean(self, ask: Ask) -> float:
        surface = self._surfaces.get(ask.surface)
        if surface is None:
            return FIRST_GUESS_TOKENS
        kind = self._kinds[ask.surface][_kind(ask)]
        own = min(kind.seen, TRUSTED_ANSWERS) / TRUSTED_ANSWERS
        return own * kind.value + (1.0 - own) * surface.value


def remaining(expected_tokens: int, made_tokens: int, limit_tokens: int) -> int:
    """Return the output tokens that an answer which has made some is expected to make yet."""
    more = max(expected_tokens - made_tokens, int(expected_tokens * FLOOR_SHARE) + 1)
    return max(0, min(more, limit_tokens - made_tokens))


def _kind(ask: Ask) -> int:
    return min(ask.prompt_tokens.bit_length() >> 1, KINDS - 1)
