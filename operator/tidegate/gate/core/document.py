"""A request's body as a document: JSON in UTF-8, bounded in size and depth, no key twice.

An engine and the gate must never read one body in two ways. Parsers differ on a key that is
written twice, so such a body is refused; NaN, numbers beyond a double and half surrogates are
refused by orjson. A body is decoded once; what else is looked at costs less than that.
"""

import json
from typing import Any

import orjson

from tidegate.gate.core import faults

Document = dict[str, Any]

MOST_CONTAINERS = 20_000
"""Objects and lists in a body: 8 MiB of `{}` would take 200 MB and a second to look through."""
MOST_KEYS = 100_000
MOST_VALUES = 1_500_000
"""8 MiB of token ids are fewer."""
_NAMED_UP_TO = 64 * 1024
"""Larger bodies are not decoded again only to name a key."""


def parse(body: bytes, depth_limit: int) -> Document:
    """Decode a body; raises `Fault` with what is wrong and where."""
    if not body:
        raise faults.bad_request("The body is empty: send a JSON object.")
    brackets = body.count(b"{") + body.count(b"[")
    if brackets > MOST_CONTAINERS or body.count(b":") > MOST_KEYS or body.count(b",") > MOST_VALUES:
        _require_few_parts(body)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise faults.bad_request(f"The body is not JSON in UTF-8: {error.msg} ({where})") from None
    if type(document) is not dict:
        raise faults.bad_request("The body must be a JSON object.")
    if brackets > depth_limit:  # those in texts count along, which does no harm
        _require_depth(document, depth_limit)
    _require_unique_keys(body, document)
    return document


def _require_few_parts(body: bytes) -> None:
    """Count the marks of JSON outside of texts, which may hold any number of them."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(unescaped.split(b'"')[::2])
    for what, marks, most in (
        ("objects and lists", b"{[", MOST_CONTAINERS),
        ("keys", b":", MOST_KEYS),
        ("values", b",", MOST_VALUES),
    ):
        if len(outside) - len(outside.translate(None, marks)) > most:
            raise faults.bad_request(f"The body has more than {most} {what}.")


def _require_depth(document: Document, limit: int) -> None:
    depth = 0
    level: list[Any] = [document]
    while level:
        depth += 1
        if depth > limit:
            raise faults.bad_request(f"The body is nested more than {limit} levels deep.")
        level = [
            item
            for outer in level
            for item in (outer.values() if type(outer) is dict else outer)
            if type(item) is dict or type(item) is list
        ]


def _require_unique_keys(body: bytes, document: Document) -> None:
    """Refuse a body that has a key twice.

    The decoder keeps one of the two, so that fewer colons are left than were written: each stands
    behind a key or in a text, there perhaps as an escape.
    """
    try:
        left = orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise faults.bad_request("The body is nested more than 254 levels deep.") from None
    if left == body:
        return
    written = body.count(b":")
    if b"\\u003" in body:
        unescaped = body.replace(b"\\\\", b"")
        written += unescaped.count(b"\\u003a") + unescaped.count(b"\\u003A")
    if left.count(b":") != written:
        _refuse_repeated_key(body)


def _refuse_repeated_key(body: bytes) -> None:
    if len(body) <= _NAMED_UP_TO:
        # Numbers are not looked at: as text they cannot be too long for this decoder.
        json.loads(body, object_pairs_hook=_unique_keys, parse_int=str, parse_float=str)
    raise faults.bad_request("A key is written twice in one object; keep one.")


def _unique_keys(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            message = f"The key {faults.shown(key)} is written twice in one object; keep one."
            raise faults.bad_request(message)
        seen.add(key)
