"""Control groups: each node has one, so that its containers can be ended without naming them.

Works on both versions: version 1 has a tree per controller, version 2 a single one.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from .errors import ClusterError

ROOT = Path("/sys/fs/cgroup")
CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
KILL_ROUNDS = 50
ROUND_SECONDS = 0.1


def _trees() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [
        Path(mount[1])
        for mount in mounts
        if mount[2] in ("cgroup", "cgroup2") and Path(mount[1]).is_relative_to(ROOT)
    ]


def folders(group: str) -> list[Path]:
    """The group's folder in every tree that has it."""
    return [tree / group for tree in _trees() if (tree / group).is_dir()]


def make(group: str) -> list[Path]:
    """Make the group in every tree and return its folders."""
    for tree in _trees():
        folder = tree
        for part in Path(group).parts:
            _delegate(folder)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            _fill_cpuset(folder)
    return folders(group)


def _delegate(folder: Path) -> None:
    """Version 2: children may use a controller only if the parent hands it down."""
    control = folder / "cgroup.subtree_control"
    controllers = folder / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text().split():
            with contextlib.suppress(OSError):  # one that can't be delegated is not needed
                control.write_text(f"+{controller}")


def _fill_cpuset(folder: Path) -> None:
    """Version 1: a new cpuset is empty, and takes no process until it has CPUs and memory nodes."""
    for name in CPUSET_FILES:
        file, parent = folder / name, folder.parent / name
        if file.exists() and parent.exists() and not file.read_text().strip():
            file.write_text(parent.read_text())


def kill(group: str) -> None:
    """End every process of the group at once, and remove the group.

    Raises:
        ClusterError: A process did not end.
    """
    for _ in range(KILL_ROUNDS):
        pids = _pids(group)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            remove(group)
            return
        time.sleep(ROUND_SECONDS)
    raise ClusterError(f"processes of cgroup {group} do not end: {sorted(_pids(group))}")


def _pids(group: str) -> set[int]:
    return {
        int(pid)
        for folder in folders(group)
        for file in folder.rglob("cgroup.procs")
        for pid in file.read_text().split()
    } - {0}


def remove(group: str) -> None:
    """Remove an empty group with what is below it."""
    for top in folders(group):
        below = [path for path in top.rglob("*") if path.is_dir()]
        for folder in [*sorted(below, reverse=True), top]:
            folder.rmdir()
