"""A request's body as a document: JSON in UTF-8, bounded in depth, no key twice.

An engine and the gate must never read one body in two ways. Parsers differ on a key that is
written twice, so such a body is refused; NaN, numbers beyond a double and half surrogates are
refused by orjson. The usual body is decoded once and looked through once.
"""

import json
from typing import Any

import orjson

from tidegate.gate.core import faults

Document = dict[str, Any]

_ESCAPED_COLONS = (b"\\u003a", b"\\u003A")


def parse(body: bytes, depth_limit: int) -> Document:
    """Decode a body; raises `Fault` with what is wrong and where."""
    if not body:
        raise faults.bad_request("The body is empty: send a JSON object.")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise faults.bad_request(f"The body is not JSON in UTF-8: {error.msg} ({where})") from None
    if type(document) is not dict:
        raise faults.bad_request("The body must be a JSON object.")
    _require_depth(body, document, depth_limit)
    _require_unique_keys(body, document)
    return document


def _require_depth(body: bytes, document: Document, limit: int) -> None:
    if body.count(b"{") + body.count(b"[") <= limit:
        return  # brackets in texts count along, which does no harm
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

    The decoder keeps one of the two, so that fewer colons are left than were written: a colon
    stands behind a key or in a text. One that was written as an escape is left without having been
    written, which could make up for another: then, and on any difference, a slower decoder tells.
    """
    try:
        left = orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise faults.bad_request("The body is nested more than 254 levels deep.") from None
    if left == body:
        return
    if left.count(b":") != body.count(b":") or any(one in body for one in _ESCAPED_COLONS):
        # Numbers are not looked at: as text they cannot be too long for the decoder.
        json.loads(body, object_pairs_hook=_unique_keys, parse_int=str, parse_float=str)


def _unique_keys(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            message = f"The key {faults.shown(key)} is written twice in one object; keep one."
            raise faults.bad_request(message)
        seen.add(key)
