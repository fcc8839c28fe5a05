"""What of a request's body becomes the prompt: texts, token ids, messages, images."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from tidegate.gate.core import faults
from tidegate.gate.core.document import Document
from tidegate.gate.exchange import Surface

_LEADING_IDS = 256
"""Token ids that tell how a prompt begins."""
_EMBEDDING_INPUTS = 2048
"""Texts that the OpenAI API takes in one request for embeddings; they hold no KV for long."""
_SPOKEN = ("tool_calls", "function_call", "reasoning_content", "reasoning", "refusal", "name")
"""Fields of a message that templates write beside its content."""
_TELLING = frozenset({str, list, dict})
_USUAL_FIELDS = 2
"""Role and content: most messages have nothing else."""
_UNSPOKEN = frozenset({"type", "id", "call_id", "status", "role", "image_url", "file_data", "url"})


class Part(NamedTuple):
    """What one of several prompts has."""

    characters: int = 0
    token_ids: int = 0
    messages: int = 0
    images: int = 0


@dataclass(slots=True)
class Content:
    """The parts of all prompts together. `beginning` spells the first of token ids.

    `parts` tells what each of several prompts has; it is empty where there is one.
    """

    texts: list[str] = field(default_factory=list)
    token_ids: int = 0
    messages: int = 0
    images: int = 0
    beginning: bytes = b""
    parts: list[Part] = field(default_factory=list)

    @property
    def prompts(self) -> int:
        """The number of prompts."""
        return len(self.parts) or 1


def of(document: Document, surface: Surface, most_prompts: int) -> Content:
    """Collect what an engine makes the prompt of; raises `Fault` where there is none."""
    content = Content()
    if surface is Surface.RESPONSES:
        _add_responses(document, content)
    elif surface is Surface.COMPLETIONS:
        _add_prompts(document, "prompt", most_prompts, content)
    elif surface is Surface.CHAT or "messages" in document:
        _add_chat(document, content)
    elif surface is Surface.TOKENIZE:
        _add_prompts(document, "prompt", most_prompts, content)
    if surface is Surface.EMBEDDINGS and ("input" in document or not content.messages):
        # Of a body with both, an engine takes one: which, is not for the gate to know.
        _add_prompts(document, "input", max(most_prompts, _EMBEDDING_INPUTS), content)
    return content


def _add_chat(document: Document, content: Content) -> None:
    messages = document.get("messages")
    if type(messages) is not list or not messages:
        raise faults.bad_request("messages must be a list with at least one message.", "messages")
    _add_tools(document, content)
    for message in messages:
        if type(message) is not dict:
            raise faults.bad_request("Each of messages must be an object.", "messages")
        _add_message(message, content)


def _add_message(message: Document, content: Content) -> None:
    content.messages += 1
    told = message.get("content")
    if type(told) is str:
        content.texts.append(told)
    elif type(told) is list:
        for part in told:
            _add_part(part, content)
    if len(message) > _USUAL_FIELDS or "content" not in message:
        for name in _SPOKEN:
            if name in message:
                content.texts += _texts(message[name])


def _add_part(part: Any, content: Content) -> None:
    """Add a part of a message: text, or what a model sees or hears."""
    if type(part) is str:
        content.texts.append(part)
        return
    text = part.get("text") if type(part) is dict else None
    if type(text) is str:
        content.texts.append(text)
    else:
        content.images += 1


def _add_responses(document: Document, content: Content) -> None:
    asked = document.get("input")
    if not asked or type(asked) not in (str, list):
        raise faults.bad_request("input must be text or a list of items, not empty.", "input")
    _add_tools(document, content)
    content.texts += _texts(document.get("previous_input_messages"))
    if type(document.get("instructions")) is str:
        content.messages += 1
        content.texts.append(document["instructions"])
    if type(asked) is str:
        content.messages += 1
        content.texts.append(asked)
        return
    for item in asked:
        if type(item) is not dict:
            raise faults.bad_request("Each item of input must be an object.", "input")
        if "content" in item:
            _add_message(item, content)
        else:
            content.messages += 1
            content.texts += _texts(item)


def _add_tools(document: Document, content: Content) -> None:
    """Add what templates write before the first message: descriptions of tools, documents."""
    for name in ("tools", "functions", "documents"):
        if document.get(name):
            content.texts.append(orjson.dumps(document[name]).decode())


def _add_prompts(document: Document, field: str, most: int, content: Content) -> None:
    asked = document.get(field)
    if type(asked) is not str and (type(asked) is not list or not asked):
        raise faults.bad_request(
            f"{field} must be text, token ids, or a list of those, not empty.", field
        )
    if type(asked) is str or type(asked[0]) is int or type(asked[0]) is dict:
        _add_prompt(asked, field, content)
        return
    if len(asked) > most:
        raise faults.bad_request(
            f"{field} may hold at most {most} prompts, not {len(asked)}.", field
        )
    for prompt in asked:
        content.parts.append(_add_prompt(prompt, field, content))


def _add_prompt(prompt: Any, field: str, content: Content) -> Part:
    """Add a prompt: text, token ids, or messages, which vLLM embeds, too."""
    if type(prompt) is str:
        content.texts.append(prompt)
        return Part(len(prompt))
    if type(prompt) is not list:
        raise faults.bad_request(f"{field} must hold texts or lists of token ids.", field)
    if prompt and type(prompt[0]) is dict:
        texts, messages, images = len(content.texts), content.messages, content.images
        for message in prompt:
            if type(message) is dict:
                _add_message(message, content)
        characters = sum(map(len, content.texts[texts:]))
        return Part(characters, 0, content.messages - messages, content.images - images)
    content.token_ids += len(prompt)
    if not content.beginning:
        content.beginning = orjson.dumps(prompt[:_LEADING_IDS])
    return Part(0, len(prompt))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts inside of a value, names and addresses left out."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            yield item
        elif type(item) is list:
            waiting += [inner for inner in reversed(item) if type(inner) in _TELLING]
        elif type(item) is dict:
            waiting += [inner for key, inner in item.items() if key not in _UNSPOKEN]
