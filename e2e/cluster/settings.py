"""Where the cluster lives and which addresses it has; everything that the environment may change.

| variable | meaning | default |
| --- | --- | --- |
| `TIDEGATE_CACHE` | binaries and images, kept between clusters | `$XDG_CACHE_HOME/tidegate` |
| `TIDEGATE_CLUSTER_STATE` | certificates, etcd, nodes' disks, logs | `/var/tmp/tidegate-cluster` |
| `TIDEGATE_CLUSTER_NAME` | network namespaces, bridge and cgroup are named after it | `tidegate` |
| `TIDEGATE_CLUSTER_LAN` | first three octets of the nodes' /24 | `10.111.0` |
| `TIDEGATE_CLUSTER_PODS` | first two octets of the pods' /16 | `10.112` |
| `TIDEGATE_CLUSTER_SERVICES` | first three octets of the Services' /24 | `10.113.0` |
| `TIDEGATE_CLUSTER_TMPFS` | `1`: the nodes' disks are in memory | `0` |
| `TIDEGATE_CLUSTER_ARGS_<PROCESS>` | more flags, as `..._ARGS_KUBE_APISERVER=--v=4` | none |
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .errors import ClusterError

CHECKOUT = Path(__file__).resolve().parents[2]
API_PORT = 6443
ARGUMENTS_PREFIX = "TIDEGATE_CLUSTER_ARGS_"
FIRST_NODE_HOST = 11
"""Last octet of node n1's address; n2 has the next one."""


@dataclass(frozen=True)
class Networks:
    """The cluster's address ranges, as the octets that are fixed."""

    lan: str = "10.111.0"
    pods: str = "10.112"
    services: str = "10.113.0"

    @property
    def host_address(self) -> str:
        """Address of the host side: API server and DNS."""
        return f"{self.lan}.1"

    @property
    def services_cidr(self) -> str:
        """The network of ClusterIPs."""
        return f"{self.services}.0/24"

    @property
    def pods_cidr(self) -> str:
        """The network that holds every node's pods."""
        return f"{self.pods}.0.0/16"

    def node_address(self, number: int) -> str:
        """Address of node `number`, counted from 1."""
        return f"{self.lan}.{FIRST_NODE_HOST - 1 + number}"

    def node_pods_cidr(self, number: int) -> str:
        """Addresses of the pods on node `number`."""
        return f"{self.pods}.{number}.0/24"


@dataclass(frozen=True)
class Settings:
    """One cluster on this machine."""

    state: Path
    cache: Path
    name: str = "tidegate"
    networks: Networks = Networks()
    nodes_in_memory: bool = False
    more_arguments: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the variables of this module's table.

        Raises:
            ClusterError: A variable's value can not be used; the message names it.
        """
        home = Path(environ.get("HOME") or "~").expanduser()
        caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
        name = environ.get("TIDEGATE_CLUSTER_NAME", cls.name)
        if not re.fullmatch(r"[a-z][a-z0-9]{0,9}", name):
            raise ClusterError(
                f"TIDEGATE_CLUSTER_NAME={name!r}: use 1 to 10 lower-case letters and digits "
                "(it becomes part of network interface names)"
            )
        return cls(
            state=_absolute(environ, "TIDEGATE_CLUSTER_STATE", Path("/var/tmp/tidegate-cluster")),
            cache=_absolute(environ, "TIDEGATE_CACHE", caches / "tidegate"),
            name=name,
            networks=Networks(
                lan=_octets(environ, "TIDEGATE_CLUSTER_LAN", Networks.lan),
                pods=_octets(environ, "TIDEGATE_CLUSTER_PODS", Networks.pods),
                services=_octets(environ, "TIDEGATE_CLUSTER_SERVICES", Networks.services),
            ),
            nodes_in_memory=environ.get("TIDEGATE_CLUSTER_TMPFS", "0") not in ("", "0"),
            more_arguments={
                key.removeprefix(ARGUMENTS_PREFIX).lower().replace("_", "-"): value
                for key, value in environ.items()
                if key.startswith(ARGUMENTS_PREFIX)
            },
        )

    @property
    def certificates(self) -> Path:
        """Keys and certificates; only root may read them."""
        return self.state / "certificates"

    @property
    def configuration(self) -> Path:
        """Kubeconfigs and configuration files."""
        return self.state / "configuration"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """Pid files, and what `down` must restore."""
        return self.state / "run"

    @property
    def images(self) -> Path:
        """Image tars that every node has, also nodes that join later."""
        return self.state / "images"

    @property
    def nodes(self) -> Path:
        """The nodes' disks."""
        return self.state / "nodes"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; valid inside the host side's network namespace."""
        return self.configuration / "admin.conf"

    @property
    def host_namespace(self) -> str:
        """Network namespace of the control plane and the tests."""
        return self.name

    def node_namespace(self, number: int) -> str:
        """Network namespace of a node, and the name of its interface on the bridge."""
        return f"{self.name}-n{number}"

    @property
    def bridge(self) -> str:
        """The bridge that joins the nodes, on the host side."""
        return f"{self.name}0"

    def arguments(self, program: str) -> tuple[str, ...]:
        """More flags for a program, from the environment."""
        return tuple(shlex.split(self.more_arguments.get(program, "")))

    def fingerprint(self) -> dict[str, object]:
        """What certificates and etcd are bound to; a state with another one can't be reused."""
        return {"name": self.name, "networks": asdict(self.networks)}


def _absolute(environ: Mapping[str, str], key: str, default: Path) -> Path:
    path = Path(environ.get(key) or default)
    if not path.is_absolute():
        raise ClusterError(f"{key}={path}: use an absolute path")
    return path


def _octets(environ: Mapping[str, str], key: str, default: str) -> str:
    value = environ.get(key) or default
    octets = value.split(".")
    valid = all(octet.isdecimal() and int(octet) <= 255 for octet in octets)
    if not valid or len(octets) != len(default.split(".")):
        raise ClusterError(f"{key}={value!r}: give the fixed octets only, as in {default}")
    return value
