"""The key by which requests that begin alike go to the pod that has their beginning cached."""

from collections.abc import Iterable
from hashlib import blake2b

_LEADING_CHARACTERS = 1024
"""A system prompt and the first turn: 256 tokens, 16 blocks. What follows differs anyway."""
_LEAST_CHARACTERS = 64
"""Less than a block of 16 tokens is not cached at all."""
_BYTES = 8


def of_texts(texts: Iterable[str], salt: str) -> bytes:
    """Return the key of prompts whose first texts are alike; empty where none is long enough.

    `salt` is the engine's own: what is salted differently shares nothing.
    """
    leading, room = [], _LEADING_CHARACTERS
    for text in texts:
        leading.append(text[:room])
        room -= len(leading[-1])
        if not room:
            break
    if _LEADING_CHARACTERS - room < _LEAST_CHARACTERS:
        return b""
    return _key("\x00".join((*leading, salt)).encode())


def of_ids(beginning: bytes, salt: str) -> bytes:
    """Return the key of a prompt of token ids, by how its first ids are written."""
    return _key(beginning + salt.encode())


def of_session(session: bytes) -> bytes:
    """Return the key of a client's own session, which stays on a pod whatever is said."""
    return _key(b"session " + session)


def _key(text: bytes) -> bytes:
    return blake2b(text, digest_size=_BYTES).digest()
