"""How many tokens a prompt has, estimated from its characters and learned from real answers.

A gate has no tokenizer: they are large, slow beside everything else that it does, and one for
each model. It serves one model, so that all its names share what is learned. Prompts of token ids
are not estimated at all.
"""

from dataclasses import dataclass
from enum import StrEnum

from tidegate.gate.exchange import Ask, Script, Usage

_TOKENS_PER_CHARACTER = {Script.LATIN: 1 / 4.0, Script.CJK: 1 / 1.5, Script.CODE: 1 / 3.0}
"""Common for vocabularies of 100,000 tokens and more; only until the first answers."""
_TOKENS_PER_MESSAGE = 5.0
"""Role, separators and newline of the usual chat templates: 3 to 7."""
_TOKENS_PER_IMAGE = 1024.0
"""Vision models take 256 to 4,000 for a photograph."""
_SLOWEST_RATE = 0.05
"""An answer weighs this much once twenty are known."""
_LARGEST_STEP = 2.0
"""One answer moves a ratio by this factor at most: nobody bends it by one odd request."""
_ERROR_RATE = 0.02


class _Part(StrEnum):
    """What a prompt's tokens come from, beside its text."""

    MESSAGE = "message"
    IMAGE = "image"


@dataclass(slots=True)
class _Ratio:
    """Tokens in one unit: a running mean that starts from a guess."""

    tokens: float
    least: float
    most: float
    answers: int = 0

    def learn(self, tokens: float) -> None:
        self.answers += 1
        rate = max(_SLOWEST_RATE, 1 / (self.answers + 1))
        told = min(max(tokens, self.tokens / _LARGEST_STEP), self.tokens * _LARGEST_STEP)
        mean = self.tokens + rate * (told - self.tokens)
        self.tokens = min(max(mean, self.least), self.most)


class Counts:
    """Estimates prompts' tokens, and learns from what the engine counted."""

    def __init__(self) -> None:
        self._ratios: dict[StrEnum, _Ratio] = {
            script: _Ratio(tokens, 1 / 32, 4.0) for script, tokens in _TOKENS_PER_CHARACTER.items()
        }
        self._ratios[_Part.MESSAGE] = _Ratio(_TOKENS_PER_MESSAGE, 0.5, 1000.0)
        self._ratios[_Part.IMAGE] = _Ratio(_TOKENS_PER_IMAGE, 16.0, 32768.0)
        self._missed_tokens = 0.0
        self._counted_tokens = 0.0

    def estimate(self, characters: int, script: Script, messages: int, images: int) -> int:
        """Return the tokens of so much text in so many messages, with so many images."""
        ratios = self._ratios
        tokens = characters * ratios[script].tokens
        if messages:
            tokens += messages * ratios[_Part.MESSAGE].tokens
        if images:
            tokens += images * ratios[_Part.IMAGE].tokens
        return max(1, round(tokens))

    def learn(self, ask: Ask, usage: Usage) -> None:
        """Correct the ratio that most of the prompt's tokens were estimated by."""
        if usage.prompt_tokens <= 0 or not (ask.characters or ask.images):
            return
        missed = abs(ask.prompt_tokens - usage.prompt_tokens)
        self._missed_tokens += _ERROR_RATE * (missed - self._missed_tokens)
        self._counted_tokens += _ERROR_RATE * (usage.prompt_tokens - self._counted_tokens)
        parts = [(self._ratios[ask.script], ask.characters)]
        if ask.messages:
            parts.append((self._ratios[_Part.MESSAGE], ask.messages))
        if ask.images:
            parts.append((self._ratios[_Part.IMAGE], ask.images))
        if len(parts) == 1:
            parts[0][0].learn(usage.prompt_tokens / parts[0][1])
            return
        tokens = [ratio.tokens * amount for ratio, amount in parts]
        largest = tokens.index(max(tokens))
        others = sum(tokens) - tokens[largest]
        ratio, amount = parts[largest]
        ratio.learn((usage.prompt_tokens - others) / amount)

    def estimate_error(self) -> float | None:
        """Return the tokens that late estimates missed, as a share of all; None before any."""
        return self._missed_tokens / self._counted_tokens if self._counted_tokens else None

    def tokens_per_character(self, script: Script) -> float:
        """Return what is believed of a kind of text."""
        return self._ratios[script].tokens
