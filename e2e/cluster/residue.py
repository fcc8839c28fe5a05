"""What the kubelet and the runtime leave outside the cluster's state, and its removal."""

import contextlib
import json
import socket
from pathlib import Path

from .settings import Settings

SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""Settings of the whole machine that a kubelet changes when it starts."""

CONTAINER_LOGS = Path("/var/log/containers")
CNI_RESULTS = Path("/var/lib/cni/results")
SOCKETS = (Path("/run/containerd/s"), Path("/var/lib/kubelet/device-plugins"))
"""Of the runtime's shims, and of the kubelet for device plugins."""
FOLDERS = (
    CONTAINER_LOGS,
    CNI_RESULTS,
    CNI_RESULTS.parent,
    *SOCKETS,
    *(folder.parent for folder in SOCKETS),
)
"""Removed when they are empty, in this order."""


def save_sysctls(settings: Settings) -> None:
    """Remember the machine's settings, unless they are remembered already."""
    file = settings.run / "sysctls.json"
    if not file.exists():
        values = {name: Path("/proc/sys", name).read_text().strip() for name in SYSCTLS}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))


def restore_sysctls(settings: Settings) -> None:
    """Put the machine's settings back."""
    file = settings.run / "sysctls.json"
    if file.exists():
        for name, value in json.loads(file.read_text()).items():
            Path("/proc/sys", name).write_text(value)
        file.unlink()


def remove(settings: Settings) -> None:
    """Remove files of this cluster that no setting could keep inside its state."""
    state = str(settings.state)
    for link in CONTAINER_LOGS.glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(state):
            link.unlink()
    for result in CNI_RESULTS.glob("*"):
        if state in result.read_text(errors="replace"):
            result.unlink()
    for path in (path for folder in SOCKETS for path in folder.glob("*")):
        if path.is_socket() and not _answers(path):
            path.unlink()
    for folder in FOLDERS:
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()


def _answers(path: Path) -> bool:
    """Whether a process listens; one that was killed leaves a socket that refuses."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
