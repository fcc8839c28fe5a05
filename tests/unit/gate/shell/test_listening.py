"""A gate listens on both families, each with a socket of its own."""

import resource
import socket

import pytest

from tidegate.errors import Invalid
from tidegate.gate.shell import listening


def close(bound):
    for one in bound:
        one.close()


def test_a_named_address_is_one_socket():
    bound = listening.sockets("127.0.0.1", 0, "--port")
    close(bound)
    assert [one.family for one in bound] == [socket.AF_INET]


def test_without_a_name_ipv4_peers_are_seen_as_such():
    bound = listening.sockets(None, 0, "--port")
    families = [one.family for one in bound]
    only_six = [
        one.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        for one in bound
        if one.family == socket.AF_INET6
    ]
    close(bound)

    assert families[0] == socket.AF_INET
    assert all(only_six)


def test_a_port_that_is_taken_is_named_with_its_option():
    bound = listening.sockets("127.0.0.1", 0, "--port")
    port = bound[0].getsockname()[1]
    with pytest.raises(Invalid, match=f"--port: cannot listen on 127.0.0.1 port {port}: Address"):
        listening.sockets("127.0.0.1", port, "--port")
    close(bound)


@pytest.mark.parametrize(
    ("limits", "raised_to", "may_take"),
    [
        ((1024, 1_048_576), 65_536, 65_280),
        ((1024, resource.RLIM_INFINITY), 65_536, 65_280),
        ((1024, 4096), 4096, 3840),
        ((200_000, 200_000), None, 199_744),
        ((100, 100), None, 0),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, None),
    ],
)
def test_connections_leave_files_for_the_gate_itself(monkeypatch, limits, raised_to, may_take):
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: raised.append(both[0]))

    assert listening.raise_open_files() == may_take
    assert raised == ([] if raised_to is None else [raised_to])


def test_a_limit_that_cannot_be_raised_is_the_limit(monkeypatch):
    def refuse(*_):
        raise OSError("not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert listening.raise_open_files() == 768
