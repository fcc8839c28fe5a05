"""Text to token ids and back, by the rule of the tiny test models.

A tokenizer.json beside the model gives the words; every listed word with its leading space is one
token, every other byte is one token. Without that file every word is one token, so that prompts of
real models have a plausible length; ids of such words cannot be turned back into the same text.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

# Byte-level BPE splits text before the look-up: a word or number keeps one leading space.
PIECES = re.compile(r" ?[^\W\d_]+| ?\d+| ?[^\s\w]+| ?_+|\s+(?!\S)|\s+")

SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END_TOKEN = 1
FIRST_BYTE = len(SPECIAL_TOKENS)
FIRST_WORD = FIRST_BYTE + 256
SPACE_MARK = "\u0120"  # byte-level BPE writes a leading space as this letter
SYLLABLES = [f" {a}{b}{c}" for a in "bdfklmnprst" for b in "aeiou" for c in "mnrs"]


class Vocabulary:
    """Token ids of texts, and texts of token ids."""

    def __init__(self, words: list[str], *, every_word_is_a_token: bool = False) -> None:
        self._words = words
        self._every_word_is_a_token = every_word_is_a_token
        self._ids = {word: FIRST_WORD + index for index, word in enumerate(words)}
        self.size = FIRST_WORD + len(words)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; special tokens in it are plain text."""
        ids: list[int] = []
        for piece in PIECES.findall(text):
            known = self._ids.get(piece)
            if known is not None:
                ids.append(known)
            elif self._every_word_is_a_token and piece.strip().isalpha():
                ids.append(FIRST_WORD + zlib.crc32(piece.encode()) % len(self._words))
            else:
                ids.extend(FIRST_BYTE + byte for byte in piece.encode())
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, special tokens left out."""
        return b"".join(self._bytes(token) for token in ids).decode("utf-8", "replace")

    def _bytes(self, token: int) -> bytes:
        if token >= FIRST_WORD:
            index = token - FIRST_WORD
            return self._words[index].encode() if index < len(self._words) else b""
        return bytes([token - FIRST_BYTE]) if token >= FIRST_BYTE else b""

    def word(self, number: int) -> int:
        """Return a word token picked by a number."""
        return FIRST_WORD + number % len(self._words)

    def encode_chat(
        self, messages: list[tuple[str, str]], *, add_generation_prompt: bool
    ) -> list[int]:
        """Return the ids of a chat: a role token, the content and an end token per message."""
        ids: list[int] = []
        for role, content in messages:
            ids.append(_role_token(role))
            ids.extend(self.encode(content))
            ids.append(END_TOKEN)
        if add_generation_prompt:
            ids.append(_role_token("assistant"))
        return ids


def load(model_folder: Path) -> Vocabulary:
    """Read the words of a model folder's tokenizer.json, or fall back to one token per word."""
    path = model_folder / "tokenizer.json"
    if not path.is_file():
        return Vocabulary(SYLLABLES, every_word_is_a_token=True)
    entries: dict[str, int] = json.loads(path.read_text("utf-8"))["model"]["vocab"]
    words = {ident: text for text, ident in entries.items() if ident >= FIRST_WORD}
    if sorted(words) != list(range(FIRST_WORD, FIRST_WORD + len(words))):
        return Vocabulary(SYLLABLES, every_word_is_a_token=True)
    return Vocabulary([words[ident].replace(SPACE_MARK, " ") for ident in sorted(words)])


def _role_token(role: str) -> int:
    name = f"<|{role}|>"
    return (
        SPECIAL_TOKENS.index(name)
        if name in SPECIAL_TOKENS[2:]
        else SPECIAL_TOKENS.index("<|user|>")
    )
