"""`tidegate plan --batch`: JSON lines in, JSON lines out, one at a time."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import BinaryIO

from tidegate.cli.inputs import files
from tidegate.core.batch import answer as batch

_LONGEST_LINE_BYTES = files.LARGEST_BYTES


def run(path: str, debug: bool = False) -> bool:
    """Answer every line of a file (`-` is standard input) in order; say whether all were readable.

    Empty lines are passed over. Each answer is written before the next line is read, so that a
    program can talk to it.

    Raises:
        Invalid: The file cannot be opened.
    """
    source = nullcontext(sys.stdin.buffer) if path == "-" else files.opened(path, "--batch")
    all_readable = True
    with source as stream:
        for number, line in enumerate(_lines(stream), 1):
            if line is None or line.strip():
                found = _answer(line, number, debug)
                sys.stdout.write(json.dumps(found.document) + "\n")
                sys.stdout.flush()
                all_readable &= found.is_readable
    return all_readable


def _answer(line: bytes | None, number: int, debug: bool) -> batch.Answer:
    if line is None:
        return batch.unreadable(number, f"is longer than {_LONGEST_LINE_BYTES} bytes")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return batch.unreadable(number, f"is no UTF-8 at byte {error.start}")
    try:
        return batch.answer(text, number)
    except Exception as bug:  # one case must not end the others; a bug is said aloud
        if debug:
            raise
        told = f"{type(bug).__name__}: {bug}"[:200]
        return batch.unreadable(number, f"a bug of Tidegate, please report it: {told}")


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines; None stands for one that is longer than any case."""
    while line := stream.readline(_LONGEST_LINE_BYTES):
        if len(line) < _LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_LONGEST_LINE_BYTES)
        yield None
