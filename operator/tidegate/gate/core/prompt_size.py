"""How large a request's prompt is, and what its true size will teach."""

from tidegate.gate.core import bounds, scripts
from tidegate.gate.core.content import Content
from tidegate.gate.core.count import Counts
from tidegate.gate.core.document import Document
from tidegate.gate.exchange import Script
from tidegate.gate.values import value_class


@value_class
class PromptSize:
    """A prompt's tokens, and the text, messages and images that they were estimated from.

    Those are 0 where the engine's own count would teach nothing of them: for token ids, and for a
    prompt that is cut.
    """

    tokens: int
    is_exact: bool = True
    characters: int = 0
    script: Script = Script.LATIN
    messages: int = 0
    images: int = 0


NONE = PromptSize(0)
"""The size for the engine's KV cache of what takes nothing of it."""


def of(document: Document, content: Content, counts: Counts) -> PromptSize:
    """Count the token ids of a prompt, and estimate its text."""
    cut_at = bounds.whole_number(document, "truncate_prompt_tokens", least=-1) or -1
    if not content.texts and not content.messages:
        return PromptSize(_cut(content.token_ids, cut_at))
    texts = content.texts
    characters = sum(map(len, texts))
    script = scripts.of(max(texts, key=len)) if texts else Script.LATIN
    estimate = counts.estimate(characters, script, content.messages, content.images)
    if content.token_ids or cut_at > 0:
        return PromptSize(_cut(content.token_ids + estimate, cut_at), is_exact=False)
    return PromptSize(estimate, False, characters, script, content.messages, content.images)


def _cut(tokens: int, cut_at: int) -> int:
    return min(tokens, cut_at) if cut_at > 0 else tokens
