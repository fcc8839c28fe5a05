"""Files and standard input as the commands read them: bounded, and UTF-8."""

import os
import stat
import sys
from typing import BinaryIO

from tidegate.errors import Invalid, Problem

LARGEST_BYTES = 64 * 2**20


def read(path: str, where: str) -> str:
    """Return the text of a file; `-` is standard input. `where` is what errors name.

    Raises:
        Invalid: It cannot be read, is a device or a folder, is too large or no UTF-8.
    """
    if path == "-":
        return _text(sys.stdin.buffer, where, path)
    with opened(path, where) as stream:
        return _text(stream, where, path)


def opened(path: str, where: str) -> BinaryIO:
    """Open a file or a pipe; a device may never end, so it is refused.

    Raises:
        Invalid: It cannot be opened, or is a device or a folder.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            return open(path, "rb")
        told = "is neither a file nor a pipe"
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error)
    raise _unreadable(where, path, told)


def _text(stream: BinaryIO, where: str, path: str) -> str:
    try:
        content = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise _unreadable(where, path, str(error.strerror)) from error
    if len(content) > LARGEST_BYTES:
        raise _unreadable(where, path, f"it is larger than {LARGEST_BYTES // 2**20} MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(where, path, f"it is no UTF-8 at byte {error.start}") from error


def _unreadable(where: str, path: str, told: str) -> Invalid:
    named = "" if where == path else f"{path[:200]} "
    return Invalid([Problem(where, f"{named}cannot be read: {told}")])
