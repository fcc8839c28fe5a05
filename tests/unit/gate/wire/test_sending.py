"""What an engine is told of itself."""

import pytest

from tidegate.gate.wire.sending import host_of


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("10.0.0.7", "10.0.0.7:8000"),
        ("qwen.chat.svc", "qwen.chat.svc:8000"),
        ("fd00::1", "[fd00::1]:8000"),
    ],
)
def test_the_port_of_a_host_can_be_told_from_its_address(name, host):
    assert host_of((name, 8000)) == host
