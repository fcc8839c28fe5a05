"""The sockets that a gate listens on, and how many it may hold open."""

import contextlib
import resource
import socket

from tidegate.errors import Invalid, Problem

_OPEN_FILES = 65_536
"""A client's and a pod's connection for each request, as far as the limit can be raised."""
_OWN_FILES = 256
"""Beside requests' connections: scrapes, watches, the second port, the log; and clients that are
told that there are too many."""


def sockets(host: str | None, port: int, option: str) -> list[socket.socket]:
    """Bind a port on one address, or on every address of both families.

    One socket for each family, since a dual one would show IPv4 peers in an IPv6 disguise that no
    network of `trustedPeers` matches.

    Raises:
        Invalid: It cannot be bound; `option` is named.
    """
    families = (
        [(socket.AF_INET6 if ":" in host else socket.AF_INET, host)]
        if host
        else [
            (socket.AF_INET, "0.0.0.0"),
            (socket.AF_INET6, "::"),
        ]
    )
    bound: list[socket.socket] = []
    for family, address in families:
        try:
            made = socket.create_server((address, port), family=family)
        except OSError as error:
            if bound:
                continue  # a machine without IPv6
            message = f"cannot listen on {address} port {port}: {error.strerror}"
            raise Invalid([Problem(option, message)]) from error
        made.setblocking(False)
        bound.append(made)
    return bound


def raise_open_files() -> int | None:
    """Raise the limit of open files to what one gate may need.

    Returns:
        How many of them requests' connections may take; None where there is no limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # a lower limit holds fewer connections
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(0, soft - _OWN_FILES)
