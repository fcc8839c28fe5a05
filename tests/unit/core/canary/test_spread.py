"""On which classes of node the pods of a revision that runs stay, while another one comes."""

import pytest

from tidegate.core.canary import spread


@pytest.mark.parametrize(
    ("why", "total", "asked", "wished", "crowd", "parts"),
    [
        ("they stay where nobody lacks a place", 5, (4, 1), (3, 1), (-4, -1), (4, 1)),
        ("they go where places lack", 3, (4, 1), (2, 0), (-2, -1), (2, 1)),
        ("they go as is best where none lacks", 4, (4, 1), (4, 0), (-9, -9), (4, 0)),
        ("they come where a place is", 2, (0, 1), (0, 1), (-1, -1), (1, 1)),
        ("they come as is best where no place is", 2, (0, 1), (1, 1), (0, 0), (1, 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pods_that_run_are_moved_as_little_as_possible(why, total, asked, wished, crowd, parts):
    asked, wished, crowd = (dict(zip("ab", of, strict=True)) for of in (asked, wished, crowd))
    assert tuple(spread.of_running(total, asked, wished, crowd).values()) == parts
