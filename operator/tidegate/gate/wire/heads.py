"""Heads of HTTP/1.1, read by llhttp in its strict mode and written plainly. Pure.

Bodies are framed elsewhere (`framing`), so a parser sees one head and nothing else. What a strict
reader and a lenient one could understand differently is refused here, never repaired.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import httptools

from tidegate.gate.exchange import Head
from tidegate.gate.values import value_class

CHUNKED: Final = -1
"""In place of a length: the body comes in chunks."""
UNTIL_CLOSE: Final = -2
"""In place of a length: the body ends with the connection."""

HEAD_END: Final = b"\r\n\r\n"

_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"content-length",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_HEEDED: Final = frozenset((b"content-length", b"transfer-encoding", b"host", b"expect"))
"""Headers of a request that tell how it is to be read."""
_OURS: Final = _HOP_BY_HOP | {b"host", b"expect", b"x-request-id", b"accept-encoding"}

Headers = Sequence[tuple[bytes, bytes]]


class BadHead(Exception):
    """A head that is not HTTP, or that two readers could take for two different things."""


@value_class
class Asked:
    """A request's head and what follows from it for the connection.

    Attributes:
        head: what the core judges.
        length: bytes of the body, or `CHUNKED`.
        keeps_alive: whether the client will send more on this connection.
        is_http10: whether it knows no chunks.
        expects_continue: whether it waits for a word before it sends the body.
    """

    head: Head
    length: int
    keeps_alive: bool
    is_http10: bool
    expects_continue: bool


@value_class
class Answered:
    """An answer's head; `length` is in bytes, or `CHUNKED`, or `UNTIL_CLOSE`."""

    status: int
    headers: Headers
    length: int
    keeps_alive: bool


class _Collector:
    """What llhttp calls while it reads a head."""

    __slots__ = ("headers", "url")

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


def read_request(raw: bytes, peer: str) -> Asked:
    """Read a request's head, its empty line included.

    Raises:
        BadHead: it is not one that the gate takes.
    """
    seen = _Collector()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # CONNECT is refused by its method; an upgrade that is offered may be ignored
    except httptools.HttpParserError as error:
        raise BadHead(str(error)) from None
    version = parser.get_http_version()
    if version not in ("1.0", "1.1"):
        raise BadHead(f"HTTP/{version} is not served here: use HTTP/1.1")
    is_http10 = version == "1.0"
    length, hosts, expects = 0, 0, False
    for name, value in seen.headers:
        if name not in _HEEDED:
            continue
        if name == b"content-length":
            length = _length(value)
        elif name == b"transfer-encoding":
            if is_http10 or value.lower() != b"chunked":
                raise BadHead("a transfer encoding other than `chunked` is not taken")
            length = CHUNKED
        elif name == b"host":
            hosts += 1
        elif name == b"expect":
            expects = value.lower() == b"100-continue" and not is_http10
    if hosts > 1 or (hosts == 0 and not is_http10):
        raise BadHead("a request has one `Host` header")
    path, query = _target(seen.url)
    head = Head(parser.get_method().decode(), path, query, seen.headers, peer)
    return Asked(head, length, parser.should_keep_alive(), is_http10, expects)


def read_answer(raw: bytes) -> Answered:
    """Read an answer's head, its empty line included.

    Raises:
        BadHead: it is not HTTP.
    """
    seen = _Collector()
    parser = httptools.HttpResponseParser(seen)
    try:
        parser.feed_data(raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise BadHead(str(error)) from None
    status = parser.get_status_code()
    length = UNTIL_CLOSE
    for name, value in seen.headers:
        if name == b"content-length":
            length = _length(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise BadHead("a transfer encoding other than `chunked` is not taken")
            length = CHUNKED
    if status in (204, 304):
        length = 0
    keeps_alive = length != UNTIL_CLOSE and parser.should_keep_alive()
    return Answered(status, seen.headers, length, keeps_alive)


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > 15:
        raise BadHead("`Content-Length` is not a length")
    return int(value)


def _target(url: bytes) -> tuple[str, str]:
    """Split a target into path and query, whichever form it has."""
    if not url.startswith((b"/", b"*")):
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise BadHead("the target is not a URL") from None
        return (parsed.path or b"/").decode("latin-1"), (parsed.query or b"").decode("latin-1")
    path, _, query = url.partition(b"?")
    return path.decode("latin-1"), query.decode("latin-1")


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """Return the first value of a header, empty without one."""
    for key, value in headers:
        if key == name:
            return value
    return b""


def with_ours(headers: Headers, ours: Headers) -> Headers:
    """Return an engine's headers with the gate's own in place of those of the same name."""
    names = [name for name, _ in ours]
    return [*[pair for pair in headers if pair[0] not in names], *ours]


def write_request(path: str, host: str, request_id: str, headers: Headers, body: bytes) -> bytes:
    """Write the head of a POST to an engine: what is ours, and the headers that go on."""
    lines = [
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nx-request-id: {request_id}\r\n"
        f"content-length: {len(body)}\r\n".encode()
    ]
    lines += [b"%b: %b\r\n" % pair for pair in headers if pair[0] not in _OURS]
    if not header(headers, b"content-type"):
        lines.append(b"content-type: application/json\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


def write_answer(status: int, headers: Headers, length: int, *, keeps_alive: bool) -> bytes:
    """Write the head of an answer; headers of the hop that it came by are left out."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b"Unknown"))]
    lines += [b"%b: %b\r\n" % pair for pair in headers if pair[0] not in _HOP_BY_HOP]
    if length == CHUNKED:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length >= 0:
        lines.append(b"content-length: %d\r\n" % length)
    if not keeps_alive:
        lines.append(b"connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)
