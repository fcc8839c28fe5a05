"""The key by which requests that begin alike go to the pod that has their beginning cached."""

from collections.abc import Sequence
from hashlib import blake2b

_LEADING_CHARACTERS = 1024
"""A system prompt and the first turn: 256 tokens, 16 blocks. What follows differs anyway."""
_LEADING_TEXTS = 8
_LEAST_CHARACTERS = 64
"""Less than a block of 16 tokens is not cached at all."""
_BYTES = 8


def of_texts(texts: Sequence[str], salt: str) -> bytes:
    """Return the key of prompts whose first texts are alike; empty where none is long enough.

    `salt` is the engine's own: what is salted differently shares nothing.
    """
    begun = [text[:_LEADING_CHARACTERS] for text in texts[:_LEADING_TEXTS]]
    leading = "\x00".join(begun)[:_LEADING_CHARACTERS]
    if len(leading) < _LEAST_CHARACTERS:
        return b""
    return _key(f"{salt}\x00{leading}".encode())


def of_ids(beginning: bytes, salt: str) -> bytes:
    """Return the key of a prompt of token ids, by how its first ids are written."""
    return _key(beginning + salt.encode())


def of_session(session: bytes) -> bytes:
    """Return the key of a client's own session, which stays on a pod whatever is said."""
    return _key(b"session " + session)


def _key(text: bytes) -> bytes:
    return blake2b(text, digest_size=_BYTES).digest()
