"""The process that reads large bodies: gets one after the other, answers each with what it says.

Started by `large_bodies`, with which it speaks through its standard streams; it ends with them.
"""

import pickle
import signal
import struct
import sys
from dataclasses import replace
from typing import BinaryIO

from tidegate.gate.exchange import Ask, Reading, Refusal

LENGTHS = struct.Struct("!II")
"""Before each request: the lengths of the reading and of the body."""
LENGTH = struct.Struct("!I")
"""Before each answer."""
AS_IT_CAME = b""
"""Stands for a body that goes on as it came; the empty one is none."""


def main() -> None:
    """Answer until there is nothing more to read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the gate says when to end
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while lengths := requests.read(LENGTHS.size):
        answers.write(_answer(requests, *LENGTHS.unpack(lengths)))
        answers.flush()


def _answer(requests: BinaryIO, reading_bytes: int, body_bytes: int) -> bytes:
    reading: Reading = pickle.loads(requests.read(reading_bytes))
    body = requests.read(body_bytes)
    told = pickle.dumps(_without_copy(reading.of(body), body), pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(told)) + told


def _without_copy(said: Ask | Refusal, body: bytes) -> Ask | Refusal:
    return replace(said, body=AS_IT_CAME) if isinstance(said, Ask) and said.body is body else said


if __name__ == "__main__":
    main()
