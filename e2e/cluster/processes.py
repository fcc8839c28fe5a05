"""The cluster's daemons: start, find again, and end; each outlives the command that started it.

A pid file alone could name a stranger (after a reboot pids begin again), so every daemon carries a
mark in its environment, and a pid counts only while its process has that mark. The shell that
becomes the daemon writes the pid file itself: a killed `up` leaves no daemon that nobody knows.
"""

import contextlib
import os
import shlex
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .errors import ClusterError
from .settings import Settings

MARK = "TIDEGATE_CLUSTER_PROCESS"
GRACE_SECONDS = 3.0
"""After SIGTERM; an API server with open watches would take a minute."""
KILL_SECONDS = 10.0
POLL_SECONDS = 0.02
START_SECONDS = 5.0


@dataclass(frozen=True)
class Process:
    """A daemon to run.

    Attributes:
        name: Unique, also the name of its log; `kubelet-n1` is the kubelet of node n1.
        command: Program and arguments.
        namespace: Network namespace that it runs in.
        cgroup: Group that it joins before it starts; empty for none.
    """

    name: str
    command: tuple[str, ...]
    namespace: str
    cgroup: str = ""


class Supervisor:
    """Starts and ends the daemons of one cluster."""

    def __init__(self, settings: Settings, search_path: str) -> None:
        """`search_path` is the daemons' PATH."""
        self._settings = settings
        self._search_path = search_path

    def names(self) -> list[str]:
        """Daemons that were started and not stopped, dead ones included."""
        return sorted(file.stem for file in self._settings.run.glob("*.pid"))

    def pid(self, name: str) -> int | None:
        """The daemon's pid while it runs."""
        try:
            pid = int(self._pid_file(name).read_text())
        except (OSError, ValueError):
            return None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # a dead child of ours would stay as a zombie
        return pid if _environment_has(pid, self._mark(name)) else None

    def log(self, name: str) -> Path:
        """Where the daemon writes."""
        return self._settings.logs / f"{name}.log"

    def start(self, process: Process) -> bool:
        """Start the daemon unless it runs; tells whether it was started.

        Raises:
            ClusterError: Its program is missing, or it ended at once.
        """
        if self.pid(process.name) is not None:
            return False
        if not shutil.which(process.command[0], path=self._search_path):
            raise ClusterError(f"{process.command[0]} is missing; run `scripts/cluster up`")
        self.log(process.name).parent.mkdir(parents=True, exist_ok=True)
        self._pid_file(process.name).parent.mkdir(parents=True, exist_ok=True)
        self._pid_file(process.name).unlink(missing_ok=True)
        self._spawn(process)
        end = time.monotonic() + START_SECONDS
        while self.pid(process.name) is None:
            if time.monotonic() > end:
                raise ClusterError(f"{process.name} ended at once; see {self.log(process.name)}")
            time.sleep(POLL_SECONDS)
        return True

    def stop(self, name: str, grace_seconds: float = GRACE_SECONDS) -> None:
        """End the daemon: SIGTERM, and SIGKILL after `grace_seconds` (0: at once).

        Raises:
            ClusterError: It did not end even so.
        """
        for number, limit_seconds in (
            (signal.SIGTERM, grace_seconds),
            (signal.SIGKILL, KILL_SECONDS),
        ):
            pid = self.pid(name)
            if pid is None:
                break
            if limit_seconds > 0:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                self._wait_for_end(name, limit_seconds)
        if self.pid(name) is not None:
            raise ClusterError(f"{name} (pid {self.pid(name)}) does not end")
        self._pid_file(name).unlink(missing_ok=True)

    def kill_strays(self) -> None:
        """End processes of this cluster whose pid file is gone, as when its state was deleted."""
        mark = f"{MARK}={self._settings.state}:".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (folder / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(mark) for variable in environ):
                    os.kill(int(folder.name), signal.SIGKILL)

    def _wait_for_end(self, name: str, limit_seconds: float) -> None:
        end = time.monotonic() + limit_seconds
        while self.pid(name) is not None and time.monotonic() < end:
            time.sleep(POLL_SECONDS)

    def _spawn(self, process: Process) -> None:
        log = os.open(self.log(process.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        script = launch_script(
            process,
            self._pid_file(process.name),
            cgroups.make(process.cgroup) if process.cgroup else [],
        )
        environ = {**os.environ, "PATH": self._search_path}
        key, _, value = self._mark(process.name).partition("=")
        try:
            os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", script],
                {**environ, key: value},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(log)

    def _pid_file(self, name: str) -> Path:
        return self._settings.run / f"{name}.pid"

    def _mark(self, name: str) -> str:
        return f"{MARK}={self._settings.state}:{name}"


def launch_script(process: Process, pid_file: Path, groups: list[Path]) -> str:
    """The shell script that turns itself into the daemon.

    It uses `nsenter`: `ip netns exec` would remount /sys and so hide the cgroups.
    """
    enter = ("nsenter", f"--net=/run/netns/{process.namespace}")
    steps = [
        "cd /",
        *(f"echo 0 > {shlex.quote(str(group / 'cgroup.procs'))}" for group in groups),
        f"echo $$ > {shlex.quote(str(pid_file))}",
        f"exec {shlex.join([*enter, *process.command])}",
    ]
    return " && ".join(steps)


def _environment_has(pid: int, mark: str) -> bool:
    """Whether the process lives and was started with `mark` in its environment."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return state not in "ZX" and mark.encode() in environ.split(b"\0")
