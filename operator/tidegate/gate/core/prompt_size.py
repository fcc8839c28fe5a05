"""How large a request's prompts are, and what their true size will teach."""

from tidegate.gate.core import bounds, scripts
from tidegate.gate.core.content import Content, Part
from tidegate.gate.core.count import Counts
from tidegate.gate.core.document import Document
from tidegate.gate.exchange import Script
from tidegate.gate.values import value_class


@value_class
class PromptSize:
    """The tokens of all prompts, and the text, messages and images that they were estimated from.

    Those are 0 where the engine's own count would teach nothing of them: for token ids, and for a
    prompt that is cut. Each prompt is a sequence of its own: whether it fits is a matter of the
    `longest`, and what an answer may have of the `shortest`.
    """

    tokens: int
    longest: int
    shortest: int
    is_exact: bool = True
    characters: int = 0
    script: Script = Script.LATIN
    messages: int = 0
    images: int = 0


NONE = PromptSize(0, 0, 0)
"""The size for the engine's KV cache of what takes nothing of it."""


def of(document: Document, content: Content, counts: Counts) -> PromptSize:
    """Count the token ids of the prompts, and estimate their text."""
    cut_at = bounds.whole_number(document, "truncate_prompt_tokens", least=-1) or -1
    texts, messages, images = content.texts, content.messages, content.images
    is_exact = not texts and not messages
    script = scripts.of(max(texts, key=len)) if texts else Script.LATIN

    def tokens_of(part: Part) -> int:
        tokens = part.token_ids
        if not is_exact and (part.characters or part.messages or not tokens):
            tokens += counts.estimate(part.characters, script, part.messages, part.images)
        return min(tokens, cut_at) if cut_at > 0 else tokens

    characters = sum(map(len, texts))
    total = longest = shortest = tokens_of(Part(characters, content.token_ids, messages, images))
    if content.parts:
        each = [tokens_of(part) for part in content.parts]
        longest, shortest = max(each), min(each)
        if cut_at > 0:
            total = sum(each)
    if is_exact or content.token_ids or cut_at > 0:
        return PromptSize(total, longest, shortest, is_exact)
    return PromptSize(total, longest, shortest, False, characters, script, messages, images)
