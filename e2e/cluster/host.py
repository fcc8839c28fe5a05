"""This machine: commands, files, locks and waiting."""

import contextlib
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .errors import ClusterError

POLL_SECONDS = 0.1
MESSAGE_LINES = 20


def say(text: str) -> None:
    """Tell the person at the terminal what goes on; results go to stdout, this does not."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def run(
    *command: str | Path,
    stdin: str | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> str:
    """Run a command to its end and return its standard output.

    Raises:
        ClusterError: The program is missing or failed; holds the end of its messages.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            env={**os.environ, **(environ or {})},
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(f"{words[0]} is not installed; run `scripts/cluster up`") from None
    if done.returncode:
        messages = (done.stderr or done.stdout).strip().splitlines()[-MESSAGE_LINES:]
        text = "\n  ".join([f"`{shlex.join(words)}` failed ({done.returncode}):", *messages])
        raise ClusterError(text)
    return done.stdout


def succeeds(*command: str | Path) -> bool:
    """Whether a command ends with 0."""
    try:
        run(*command)
    except ClusterError:
        return False
    return True


def write_if_changed(path: Path, content: str | Mapping[str, object]) -> Path:
    """Write a file, private and atomically, only if its text differs; a mapping becomes JSON.

    The file must stay untouched otherwise: kube-proxy exits when its configuration is rewritten.
    """
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)
    return path


def wait_until(holds: Callable[[], bool], what: str, limit_seconds: float, hint: object) -> None:
    """Poll until a condition holds.

    Raises:
        ClusterError: It did not hold within `limit_seconds`; names `what` and the place to look.
    """
    end = time.monotonic() + limit_seconds
    while not holds():
        if time.monotonic() > end:
            raise ClusterError(f"no {what} after {limit_seconds:.0f} s; see {hint}")
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; a lock file that another holder deleted is made anew."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield
                return


def mounts_under(folder: Path) -> list[Path]:
    """Mount points at or below a folder, the deepest last."""
    points = [
        Path(line.split()[4].replace("\\040", " "))
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    ]
    return sorted(point for point in points if point.is_relative_to(folder))


def unmount_under(folder: Path) -> None:
    """Detach every mount at or below a folder."""
    for point in reversed(mounts_under(folder)):
        run("umount", "-l", point)
