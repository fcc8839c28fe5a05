from collections import Counter
from hashlib import blake2b

import pytest

from tidegate.gate.core.ring import Ring

KEYS = [blake2b(str(number).encode(), digest_size=8).digest() for number in range(4000)]
NAMES = [f"tiny-unified-abc-{number}" for number in range(8)]


def test_an_empty_ring_owns_nothing():
    assert Ring([]).owner(KEYS[0]) is None


def test_every_gate_finds_the_same_owners():
    ours, theirs = Ring(NAMES), Ring(reversed(NAMES))

    assert [ours.owner(key) for key in KEYS] == [theirs.owner(key) for key in KEYS]


def test_prefixes_are_spread_evenly():
    owned = Counter(map(Ring(NAMES).owner, KEYS))

    mean = len(KEYS) / len(NAMES)
    assert set(owned) == set(NAMES)
    assert all(0.65 * mean < count < 1.35 * mean for count in owned.values())


@pytest.mark.parametrize("gone", NAMES)
def test_only_the_prefixes_of_a_pod_that_goes_move(gone):
    whole, rest = Ring(NAMES), Ring([name for name in NAMES if name != gone])

    for key in KEYS:
        if whole.owner(key) != gone:
            assert rest.owner(key) == whole.owner(key)
        else:
            assert rest.owner(key) == list(whole.walk(key))[1]


@pytest.mark.parametrize("key", [b"", b"\x00" * 8, b"\xff" * 8])
def test_a_walk_meets_every_name_once(key):
    assert sorted(Ring(NAMES).walk(key)) == NAMES
