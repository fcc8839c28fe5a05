"""What the commands write to: terminals of any encoding, full disks and pipes that close."""

import codecs
import io
import os
import sys

_IN_ASCII = {
    # the marks of the bars stay apart, each one character
    "▓": "w",
    "▒": "d",
    "▞": "a",
    "▚": "g",
    "▪": "r",
    "█": "#",
    "░": ".",
    "→": "->",
    "·": "-",
    "…": "...",
}
_ERRORS = "tidegate-ascii"


def prepare() -> None:
    """Let output stand in for characters that its encoding lacks, rather than fail."""
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def discard() -> None:
    """Drop what is still to be written: the reader is gone, or the disk is full."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):  # not a file, or closed
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), output)


def is_live_terminal() -> bool:
    """Tell whether output is a terminal that can be drawn on again and again."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def is_unicode() -> bool:
    """Tell whether output can hold every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # only output is prepared
    lacking = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(letter, "?") for letter in lacking), error.end
