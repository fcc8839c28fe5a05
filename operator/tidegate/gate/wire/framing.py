"""Where a body ends: by its length, by chunks, or by the end of the connection. Pure.

Each framing takes bytes as they come and gives back what may be passed on as it is. It finds
where things are and copies nothing: `spans` says where the body's own bytes lie in what it gave.
"""

import re
from collections.abc import Sequence
from typing import Final, Protocol

from tidegate.gate.wire.heads import CHUNKED, UNTIL_CLOSE

TERMINATOR: Final = b"0\r\n\r\n"

HELD_CHUNK_BYTES: Final = 64 * 1024
"""A chunk up to this long is passed on whole, so that an error event can follow it."""
_LINE_BYTES: Final = 256
_TRAILER_BYTES: Final = 8 * 1024
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]{0,200})?\r\n")


class BadFraming(Exception):
    """Bytes that are no body of this framing."""


def joined(raw: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Return the parts of `raw` that the spans tell, copying nothing where they are all of it."""
    if len(spans) == 1 and spans[0] == (0, len(raw)):
        return raw
    return b"".join([raw[start:end] for start, end in spans])


class Framing(Protocol):
    """How a body is delimited."""

    spans: list[tuple[int, int]]
    """Where the body's bytes lie in what `feed` last gave."""
    ended: bool
    """The whole body has come."""
    rest: bytes
    """After the end: what came beyond it."""
    is_between: bool
    """What was given so far ends with a whole chunk."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes and give those that may be passed on.

        Raises:
            BadFraming: they do not belong to such a body.
        """


def framing(length: int) -> Framing:
    """Make the framing of a body of that length, or of `CHUNKED` or `UNTIL_CLOSE`."""
    return Chunked() if length == CHUNKED else Counted(length)


class Counted:
    """A body of a known length, or one that ends with its connection."""

    __slots__ = ("_left", "ended", "is_between", "rest", "spans")

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0
        self.is_between = length == UNTIL_CLOSE
        self.rest = b""
        self.spans: list[tuple[int, int]] = []

    def feed(self, data: bytes) -> bytes:
        """Take bytes and give those of the body."""
        if self._left != UNTIL_CLOSE:
            if len(data) > self._left:
                self.rest = data[self._left :]
                data = data[: self._left]
            self._left -= len(data)
            self.ended = self._left == 0
        self.spans = [(0, len(data))]
        return data


class Chunked:
    """A body in chunks; the last one, of no length, is told by `ended` and not given on."""

    __slots__ = ("_held", "_open_bytes", "ended", "is_between", "rest", "spans")

    def __init__(self) -> None:
        self._held = b""
        self._open_bytes = 0
        self.ended = False
        self.is_between = True
        self.rest = b""
        self.spans: list[tuple[int, int]] = []

    def feed(self, data: bytes) -> bytes:
        """Take bytes and give whole chunks, or what came of a very long one.

        Raises:
            BadFraming: they are no chunks.
        """
        if self._held:
            data = self._held + data
            self._held = b""
        self.spans = spans = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if not self.is_between:
                at = self._long(data, at)
                if not self.is_between:
                    break
                continue
            line = _SIZE_LINE.match(data, at)
            if line is None:
                _must_be_cut_off(data, at)
                break
            start = line.end()
            end = start + int(line[1], 16)
            if end == start:
                self._end(data, start)
                break
            if end + 2 > size:
                if end - start <= HELD_CHUNK_BYTES:
                    break
                self.is_between, self._open_bytes = False, end - start
                at = self._long(data, start)
                break
            if data[end : end + 2] != b"\r\n":
                raise BadFraming("a chunk is longer than its size")
            spans.append((start, end))
            at = end + 2
        if self.ended:
            return data[:at]
        self._held = data[at:]
        return data[:at] if at < size else data

    def _long(self, data: bytes, at: int) -> int:
        """Pass over what came of a long chunk, and over its end only when that is whole."""
        taken = min(self._open_bytes, len(data) - at)
        if taken:
            self.spans.append((at, at + taken))
            self._open_bytes -= taken
            at += taken
        if self._open_bytes == 0 and len(data) - at >= 2:
            if data[at : at + 2] != b"\r\n":
                raise BadFraming("a chunk is longer than its size")
            self.is_between = True
            at += 2
        return at

    def _end(self, data: bytes, start: int) -> None:
        """Look for the end of the trailers, which are dropped."""
        end = data.find(b"\r\n\r\n", start - 2)
        if end >= 0:
            self.ended, self.rest = True, data[end + 4 :]
        elif len(data) - start > _TRAILER_BYTES:
            raise BadFraming("trailers are too long")


def _must_be_cut_off(data: bytes, at: int) -> None:
    """Refuse a size line that can never become one."""
    if len(data) - at > _LINE_BYTES or b"\n" in data[at:]:
        raise BadFraming("not the size of a chunk")
