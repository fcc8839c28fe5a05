"""Dividing replicas over classes of node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import placement
from tidegate.core.placement import ClassRoom

NAMES = ("a100", "h100", "l40s")
ROOMS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 40), min_size=1)
PREVIOUS = st.dictionaries(st.sampled_from((*NAMES, "gone")), st.integers(0, 40))


def rooms(counts):
    return [ClassRoom(name, room) for name, room in counts.items()]


@pytest.mark.parametrize(
    ("replicas", "counts", "previous", "expected"),
    [
        pytest.param(4, {"a": 8, "b": 8}, {}, {"a": 2, "b": 2}, id="alike classes share alike"),
        pytest.param(6, {"a": 8, "b": 4}, {}, {"a": 4, "b": 2}, id="in proportion to room"),
        pytest.param(3, {"a": 8, "b": 0}, {}, {"a": 3, "b": 0}, id="a full class gets none"),
        pytest.param(
            9, {"a": 4, "b": 2}, {}, {"a": 6, "b": 3}, id="what fits nowhere waits in proportion"
        ),
        pytest.param(
            4, {"a": 8, "b": 8}, {"a": 4}, {"a": 4, "b": 0}, id="no reshuffle for a new class"
        ),
        pytest.param(
            5, {"a": 8, "b": 8}, {"a": 4}, {"a": 4, "b": 1}, id="one more goes to the emptier"
        ),
        pytest.param(
            3,
            {"a": 8, "b": 8},
            {"a": 2, "b": 2},
            {"a": 1, "b": 2},
            id="one less moves nothing else",
        ),
        pytest.param(
            4, {"a": 1, "b": 8}, {"a": 4}, {"a": 1, "b": 3}, id="what a class cannot hold moves"
        ),
        pytest.param(
            4, {"a": 1, "b": 0}, {"a": 4}, {"a": 4, "b": 0}, id="with no room elsewhere it stays"
        ),
        pytest.param(2, {"b": 8}, {"a": 2}, {"b": 2}, id="a class that left is replaced"),
        pytest.param(0, {"a": 8}, {"a": 2}, {"a": 0}, id="scale to zero"),
    ],
)
def test_replicas_are_divided(replicas, counts, previous, expected):
    assert placement.divide(replicas, rooms(counts), previous) == expected


def test_pinned_replicas_are_as_pinned_and_the_rest_is_divided():
    classes = [ClassRoom("a", 8, pinned=3), ClassRoom("b", 8), ClassRoom("c", 8)]

    assert placement.divide(5, classes, {}) == {"a": 3, "b": 1, "c": 1}


@given(st.integers(0, 60), ROOMS, PREVIOUS)
def test_every_replica_is_given_to_a_class(replicas, counts, previous):
    shares = placement.divide(replicas, rooms(counts), previous)

    assert sum(shares.values()) == replicas
    assert set(shares) == set(counts)


@given(st.integers(0, 60), ROOMS, PREVIOUS)
def test_dividing_again_changes_nothing(replicas, counts, previous):
    once = placement.divide(replicas, rooms(counts), previous)

    assert placement.divide(replicas, rooms(counts), once) == once


@given(st.integers(1, 60), ROOMS)
def test_one_replica_more_moves_no_other(replicas, counts):
    before = placement.divide(replicas, rooms(counts), {})
    after = placement.divide(replicas + 1, rooms(counts), before)

    assert sum(abs(after[name] - before[name]) for name in counts) == 1


@given(st.integers(0, 60), ROOMS, PREVIOUS)
def test_no_class_is_overfull_while_another_has_room(replicas, counts, previous):
    shares = placement.divide(replicas, rooms(counts), previous)
    overfull = [name for name in counts if shares[name] > counts[name]]
    roomy = [name for name in counts if shares[name] < counts[name]]

    assert not (overfull and roomy)


@given(st.integers(0, 60), ROOMS, PREVIOUS)
def test_the_order_of_the_classes_does_not_matter(replicas, counts, previous):
    reordered = dict(reversed(counts.items()))

    assert placement.divide(replicas, rooms(counts), previous) == placement.divide(
        replicas, rooms(reordered), previous
    )
