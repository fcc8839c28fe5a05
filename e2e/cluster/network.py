"""Network namespaces without a way out of the machine, joined by a bridge.

`<name>` is the host side (control plane and tests), `<name>-n1`, `<name>-n2`, ... hold a node each.
Pods are routed, not bridged and not translated: the host side reaches every pod and ClusterIP.
"""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from . import host
from .errors import ClusterError
from .settings import Networks, Settings

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
NODE_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/icmp_ratelimit": "0",  # "unreachable" comes at once every time, not once a second
}


def exists(namespace: str) -> bool:
    """Whether the namespace is there."""
    return (NAMESPACES / namespace).exists()


def create(settings: Settings, count: int) -> None:
    """Make the host side and `count` nodes, or complete what an interrupted run left."""
    networks, side = settings.networks, settings.host_namespace
    _add_namespace(side)
    if not _has_link(side, settings.bridge):
        _ip(side, f"link add {settings.bridge} type bridge")
    _ip(
        side,
        f"addr replace {networks.host_address}/24 dev {settings.bridge}",
        f"link set {settings.bridge} up",
    )
    for number in range(1, count + 1):
        _create_node(settings, number)
    for number in range(1, count + 1):
        others = [other for other in range(1, count + 1) if other != number]
        _ip(settings.node_namespace(number), *(_pod_route(networks, other) for other in others))
    if count:  # ClusterIPs are reached through the first node's kube-proxy
        first = networks.node_address(1)
        _ip(side, f"route replace {networks.services_cidr} via {first}")


def _create_node(settings: Settings, number: int) -> None:
    networks, side = settings.networks, settings.host_namespace
    namespace = settings.node_namespace(number)
    _add_namespace(namespace)
    if not _has_link(namespace, "eth0"):
        if _has_link(side, namespace):
            _ip(side, f"link del {namespace}")
        _ip(side, f"link add {namespace} type veth peer name eth0 netns {namespace}")
    _ip(side, f"link set {namespace} master {settings.bridge} up")
    _ip(
        namespace,
        f"addr replace {networks.node_address(number)}/24 dev eth0",
        "link set eth0 up",
        f"route replace {networks.services_cidr} dev eth0",  # DNAT takes it from there
    )
    for name, value in NODE_SYSCTLS.items():
        with inside(namespace):
            Path("/proc/sys", name).write_text(value)
    _ip(side, _pod_route(networks, number))


def _pod_route(networks: Networks, number: int) -> str:
    pods, via = networks.node_pods_cidr(number), networks.node_address(number)
    return f"route replace {pods} via {via}"


def _add_namespace(name: str) -> None:
    if not exists(name):
        host.run("ip", "netns", "add", name)
    _ip(name, "link set lo up")


def _has_link(namespace: str, link: str) -> bool:
    return host.succeeds("ip", "-n", namespace, "link", "show", "dev", link)


def _ip(namespace: str, *lines: str) -> None:
    """Run lines of `ip` inside a namespace."""
    host.run("ip", "-n", namespace, "-batch", "-", stdin="\n".join(lines) + "\n")


def remove(settings: Settings) -> None:
    """Delete the cluster's namespaces, and with them their interfaces, routes and rules."""
    ours = [*NAMESPACES.glob(f"{settings.name}-n*"), NAMESPACES / settings.host_namespace]
    for namespace in ours:
        if namespace.exists():
            host.run("ip", "netns", "del", namespace.name)


def enter(namespace: str) -> None:
    """Move this thread, and what it starts, into a namespace for good.

    Raises:
        ClusterError: The namespace is not there.
    """
    try:
        descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY)
    except FileNotFoundError:
        raise ClusterError("the cluster is not up; run `scripts/cluster up`") from None
    _set_namespace(descriptor)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move this thread into a namespace and back; sockets made meanwhile stay in it."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(namespace)
    except ClusterError:
        os.close(before)
        raise
    try:
        yield
    finally:
        _set_namespace(before)


def connect(namespace: str, address: str, port: int, timeout_seconds: float) -> socket.socket:
    """Connect from inside a namespace, wherever this process is.

    Raises:
        OSError: No connection.
    """
    with inside(namespace):
        connection = socket.socket()
    connection.settimeout(timeout_seconds)
    # a request leaves in two parts: the second would wait 40 ms for the answer to the first
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        connection.connect((address, port))
    except OSError:
        connection.close()
        raise
    return connection


def _set_namespace(descriptor: int) -> None:
    """Call setns(2) and close the descriptor; `os.setns` came with Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise ClusterError(f"setns: {os.strerror(ctypes.get_errno())}; are you root?")
    finally:
        os.close(descriptor)
