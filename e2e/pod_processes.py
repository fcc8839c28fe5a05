"""Processes of pods, which are on this machine where the cluster is the local one."""

import os
import signal
from pathlib import Path

from e2e.kube import Document

TIDEGATE = b"tidegate"
"""Word of the command lines of operators and gates."""
DOUBLE = b"e2e.double"
"""The same of engine doubles."""


def of(pod: Document, word: bytes) -> list[int]:
    """Return the pids, on this machine, of a pod's processes with a word in their command."""
    uid = pod["metadata"]["uid"]
    spellings = (uid, uid.replace("-", "_"))
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            groups = (folder / "cgroup").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if word in command and any(spelling in groups for spelling in spellings):
            found.append(int(folder.name))
    assert found, f"no process of pod {pod['metadata']['name']} is on this machine"
    return found


def send(pod: Document, word: bytes, number: signal.Signals) -> None:
    """Send a signal to these processes of a pod."""
    for pid in of(pod, word):
        os.kill(pid, number)


def restarts(pod: Document) -> int:
    """Return how often the containers of a pod were started again."""
    statuses = pod["status"].get("containerStatuses") or ()
    return sum(status["restartCount"] for status in statuses)
