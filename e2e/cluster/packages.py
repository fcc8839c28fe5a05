"""The distribution's own packages that the cluster uses, on Debian and Ubuntu."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from . import host
from .errors import ClusterError

PROOFS: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "nftables": "nft",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "mount": "mount",
    "openssl": "openssl",
    "gcc": "gcc",
    "libc6-dev": "/usr/lib/*/libc.a",
    "mmdebstrap": "mmdebstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "buildah": "buildah",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "curl": "curl",
}
"""A program or file that shows that a package, or another one that does the same, is there."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def missing() -> list[str]:
    """Packages whose proof is not on this machine."""
    return [package for package, proof in PROOFS.items() if not _is_there(proof)]


def _is_there(proof: str) -> bool:
    if proof.startswith("/"):
        return any(Path("/").glob(proof.lstrip("/")))
    return shutil.which(proof, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}") is not None


def install() -> None:
    """Install what is missing; asks the package servers only if something is.

    Raises:
        ClusterError: Not root, no apt, or apt failed.
    """
    wanted = missing()
    if not wanted:
        return
    if not shutil.which("apt-get"):
        raise ClusterError(f"install these by hand (there is no apt-get here): {' '.join(wanted)}")
    host.say(f"installing {' '.join(wanted)} with apt: about 1 min, once")
    environ = {"DEBIAN_FRONTEND": "noninteractive"}
    patient = ("-o", "DPkg::Lock::Timeout=300")  # a new machine may be updating itself
    host.run("apt-get", *patient, "update", "-q", environ=environ)
    host.run(
        *("apt-get", *patient, "install", "-y", "-q", "--no-install-recommends"),
        *wanted,
        environ=environ,
    )
    if still := missing():
        raise ClusterError(f"apt installed the packages, but these are not usable: {still}")
