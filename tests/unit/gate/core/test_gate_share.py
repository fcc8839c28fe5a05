"""A gate's part of each pod while gates come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gate.core.gate_share import GateShare

HANDOVER_SECONDS = 30.0
USABLE = 900.0


def settled(gates):
    """The share of one of so many gates that have been there for long."""
    share = GateShare()
    share.divide(gates)
    rise(share, 0.0, HANDOVER_SECONDS)
    return share


def part(share, others):
    """Blocks of a pod that may be given."""
    if share.is_clear(USABLE, others):
        return share.whole_blocks(USABLE)
    return share.sure_blocks(USABLE, others)


def rise(share, *moments):
    for now in moments:
        share.tick(now, HANDOVER_SECONDS)


def test_each_has_its_part_once_all_have_settled():
    assert part(settled(3), None) == 300


def test_a_share_falls_at_once():
    share = settled(2)

    share.divide(3)

    assert share.is_settled
    assert part(share, None) == 300


def test_one_that_joins_takes_what_the_others_give_up():
    share = GateShare(joins=True)
    share.divide(3)
    rise(share, 100.0)
    assert part(share, 600) == 1

    rise(share, 115.0)
    assert part(share, 600) == 75
    rise(share, 130.0)
    assert share.is_settled
    assert part(share, 600) == 300


def test_of_one_that_leaves_the_part_is_taken_slowly():
    share = settled(3)
    share.divide(2)
    rise(share, 100.0, 115.0)

    assert part(share, 600) == pytest.approx(337, abs=1)


@pytest.mark.parametrize(("others", "blocks"), [(0, 300), (200, 300), (350, 200), (450, 1)])
def test_what_the_engine_shows_to_be_free_may_be_had_at_once(others, blocks):
    share = GateShare(joins=True)
    share.divide(3)

    assert part(share, others) == blocks


def test_a_number_that_changes_again_begins_the_handover_anew():
    share = GateShare(joins=True)
    share.divide(2)
    rise(share, 0.0, 15.0)
    share.divide(1)
    rise(share, 20.0)
    assert part(share, None) == pytest.approx(112, abs=1)

    rise(share, 35.0)
    assert part(share, None) == pytest.approx(309, abs=1)


def test_a_rise_goes_on_while_the_number_is_told_again_and_again():
    share = GateShare(joins=True)
    share.divide(2)
    for second in range(int(HANDOVER_SECONDS) + 1):
        share.divide(2)
        rise(share, float(second))

    assert share.is_settled
    assert part(share, None) == 450


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    steps=st.lists(st.floats(0.01, 40), min_size=1, max_size=8),
    others=st.none() | st.integers(0, 2000),
    joins=st.booleans(),
)
def test_it_is_never_more_than_its_part_and_comes_to_it(counts, steps, others, joins):
    share, now = GateShare(joins=joins), 0.0
    for gates in counts:
        share.divide(gates)
        for step in steps:
            now += step
            rise(share, now)
            assert 1 <= part(share, others) <= max(1, int(USABLE / gates))
    rise(share, now, now + HANDOVER_SECONDS + 1)

    assert part(share, others) == int(USABLE / counts[-1])
