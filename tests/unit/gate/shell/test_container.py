"""A gate knows how much memory its container has."""

import pytest

from tidegate.gate.shell import container


@pytest.mark.parametrize(
    ("second", "first", "told"),
    [
        ("536870912\n", None, 2**29),
        ("max\n", None, None),
        (None, "268435456\n", 2**28),
        (None, "9223372036854771712\n", None),
        (None, None, None),
        ("nonsense", "268435456", 2**28),
    ],
)
def test_the_limit_is_read_from_either_version_of_control_groups(tmp_path, second, first, told):
    files = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes")
    for file, text in zip(files, (second, first), strict=True):
        if text is not None:
            file.write_text(text)

    assert container.memory_bytes(files) == told
