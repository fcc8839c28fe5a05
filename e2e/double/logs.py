"""Lines as vLLM prints them: logs on stdout, tracebacks on stderr, the process in front."""

from __future__ import annotations

import os
import sys
import time

Process = str


def line(level: str, place: str, message: str, *, process: Process = "APIServer") -> None:
    """Print a log line; `place` is the source file and line of vLLM that prints it."""
    moment = time.strftime("%m-%d %H:%M:%S")
    head = f"{_prefix(process)}{level} {moment} [{place}]"
    print("\n".join(f"{head} {part}" for part in message.split("\n")), flush=True)


def info(place: str, message: str, *, process: Process = "APIServer") -> None:
    """Print a line of the usual level."""
    line("INFO", place, message, process=process)


def error(place: str, message: str, *, process: Process = "EngineCore") -> None:
    """Print a line of an error."""
    line("ERROR", place, message, process=process)


def traceback(process: Process, frames: list[str], cause: str) -> None:
    """Print a Python traceback of one of vLLM's processes to stderr."""
    lines = ["Traceback (most recent call last):", *(f"  {frame}" for frame in frames), cause]
    text = "\n".join(lines)
    print(
        "\n".join(_prefix(process) + part for part in text.split("\n")), file=sys.stderr, flush=True
    )


def _prefix(process: Process) -> str:
    # The processes of vLLM are one process here; each keeps a number of its own.
    offset = {"APIServer": 0, "EngineCore": 1, "Worker": 2}.get(process, 0)
    return f"({process} pid={os.getpid() + offset}) "
