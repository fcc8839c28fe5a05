"""Layers are grouped so that one block id serves all groups, and none of their memory is lost."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.budget import grouping, packing
from tidegate.core.budget.kernel_blocks import KernelBlocks, smallest_for_all
from tidegate.core.budget.kv_spec import KVSpec
from tidegate.core.budget.reach import AllTokens, Chunk, States, Window
from tidegate.errors import Refused

FULL, WINDOW, CHUNK = AllTokens(), Window(1024, 16384), Chunk(8192, 16384)


def _spec(reach, page_bytes=1024, block_size=16, latent=False):
    return KVSpec(reach, block_size, page_bytes, page_bytes, page_bytes, latent)


def _group(specs, packs=False, hybrid=True):
    return grouping.group(specs, packs=packs, hybrid=hybrid, context_parallel=1)


@pytest.mark.parametrize(
    ("windows", "full", "sizes"),
    [
        (10, 2, [2, 2, 2, 2, 2, 2]),
        (5, 4, [5, 4]),  # the larger count is taken while it pads little
        (29, 5, [5, 5, 5, 5, 5, 4, 5]),
        (0, 12, [12]),
    ],
)
def test_groups_have_about_as_many_layers_each(windows, full, sizes):
    _, grouped = _group([_spec(WINDOW)] * windows + [_spec(FULL)] * full)

    assert [len(places) for places in grouped] == sizes


def test_a_page_that_divides_the_largest_gets_a_longer_block():
    specs, _ = _group([_spec(WINDOW, 1024), _spec(FULL, 4096)])

    assert [(spec.block_size, spec.page_bytes) for spec in specs] == [(64, 4096), (16, 4096)]


def test_states_are_padded_to_the_largest_page():
    specs, _ = _group([_spec(States(2), 3000), _spec(FULL, 4096)])

    assert [spec.page_bytes for spec in specs] == [4096, 4096]
    assert specs[0].dense_bytes == 3000


def test_a_latent_page_is_not_padded_and_windows_then_keep_all_tokens():
    specs, grouped = _group([_spec(FULL, 1000, latent=True), _spec(WINDOW, 4096)])

    assert [spec.reach for spec in specs] == [FULL, FULL]
    assert grouped == [[0, 1]]


def test_without_the_hybrid_manager_one_group_keeps_all_tokens():
    specs, grouped = _group([_spec(WINDOW), _spec(CHUNK), _spec(FULL)], hybrid=False)

    assert {spec.reach for spec in specs} == {FULL}
    assert grouped == [[0, 1, 2]]


def test_recurrent_layers_need_the_hybrid_manager():
    with pytest.raises(Refused) as refused:
        _group([_spec(States(1)), _spec(FULL)], hybrid=False)

    assert refused.value.reason == Reason.FLAG_UNSUPPORTED


SPECS = st.lists(
    st.builds(
        _spec,
        reach=st.sampled_from([FULL, WINDOW, CHUNK, States(2)]),
        page_bytes=st.sampled_from([1024, 2048, 3000, 4096]),
    ),
    min_size=1,
    max_size=40,
)


@given(specs=SPECS)
@settings(deadline=None)
def test_every_layer_is_in_one_group_and_pages_never_shrink(specs):
    changed, grouped = _group(specs)

    assert sorted(chain.from_iterable(grouped)) == list(range(len(specs)))
    assert all(new.page_bytes >= old.page_bytes for new, old in zip(changed, specs, strict=True))
    assert all(places for places in grouped)


# Windows and states of one kind have pages of one size, as in every model that is packed.
PACKED = st.lists(
    st.builds(_spec, st.just(FULL), st.sampled_from([1024, 2048, 4096]))
    | st.sampled_from([_spec(WINDOW, 1024), _spec(WINDOW, 2048, 8), _spec(States(2), 3000)]),
    min_size=1,
    max_size=40,
)


@given(specs=PACKED)
@settings(deadline=None)
def test_packed_groups_hold_every_layer_once(specs):
    assert sorted(chain.from_iterable(packing.groups(specs))) == list(range(len(specs)))


@given(specs=SPECS)
@settings(deadline=None)
def test_the_layers_of_a_group_take_blocks_alike(specs):
    changed, grouped = _group(specs)
    for places in grouped:
        kinds = {(changed[place].block_size, changed[place].reach) for place in places}
        assert len(kinds) == 1


SIZES = st.lists(st.sampled_from([16, 32, 48, 64, 128]), max_size=3).map(tuple)
BLOCKS = st.builds(KernelBlocks, SIZES, st.sampled_from([16, 32, 64]))


@given(blocks=st.lists(BLOCKS, min_size=1, max_size=4))
@settings(deadline=None)
def test_the_block_of_several_backends_is_one_that_each_takes(blocks):
    smallest = smallest_for_all(blocks)

    assert smallest is not None
    assert all(one.takes(smallest) for one in blocks)


def test_backends_without_a_common_size_have_none():
    assert KernelBlocks((64,)).takes(16) is False
    assert KernelBlocks((16, 64)).shared_with(KernelBlocks((), 32)).sizes == (64,)


@pytest.mark.parametrize(
    ("reach", "tokens", "blocks"),
    [
        (AllTokens(), 1000, 63),
        (AllTokens(context_parallel=4), 1000, 16),
        (Window(128, 0), 1, 2),
        (Window(128, 0), 10**6, 9),
        (Window(128, 0, retained=8), 10**6, 10),
        (Chunk(128, 64), 10**6, 12),
        (States(3), 10**6, 3),
    ],
)
def test_a_reach_says_the_blocks_of_a_request(reach, tokens, blocks):
    assert reach.blocks_of(tokens, 16) == blocks
