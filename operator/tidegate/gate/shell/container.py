"""What the container gives the process."""

from pathlib import Path

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of the second and of the first version of control groups."""
_NO_LIMIT_BYTES = 2**50
"""The first version writes a number beyond any memory where there is no limit."""


def memory_bytes(files: tuple[Path, ...] = _LIMITS) -> int | None:
    """Return the container's limit of memory; None where there is none or it is not told."""
    for file in files:
        try:
            told = int(file.read_text())
        except (OSError, ValueError):  # `max` is no number
            continue
        if 0 < told < _NO_LIMIT_BYTES:
            return told
    return None
