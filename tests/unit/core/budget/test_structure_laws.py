"""Laws of the pool that hold for every structure."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.budget.structures import ALL, GIB, HOPPER, engine_of

from tidegate.api.reasons import Reason
from tidegate.core.budget import pool, shape, sizing, weights
from tidegate.errors import Refused

READ = {name: shape.read(config) for name, config in ALL.items()}
NAMES = st.sampled_from(sorted(ALL))
LENGTHS = st.integers(1, 200_000)
MEMORY = st.integers(0, 200 * GIB)
SIZES = st.sampled_from([1, 2, 4, 8])
CACHING = st.booleans()


def _pool(name, memory_bytes, **flags):
    dtype = "fp8" if name == "compressed" else "auto"
    return pool.kv_pool(READ[name], engine_of(kv_cache_dtype=dtype, **flags), memory_bytes, HOPPER)


@given(name=NAMES, length=LENGTHS, small=MEMORY, more=MEMORY, caching=CACHING)
@settings(deadline=None)
def test_more_memory_never_holds_less(name, length, small, more, caching):
    flags = {"max_model_len": length, "prefix_caching": caching}
    less, greater = _pool(name, small, **flags), _pool(name, small + more, **flags)

    assert greater.num_blocks >= less.num_blocks
    assert greater.max_model_len_that_fits >= less.max_model_len_that_fits
    assert greater.fits or not less.fits


@given(name=NAMES, length=LENGTHS, more=LENGTHS, memory=MEMORY)
@settings(deadline=None)
def test_a_longer_request_never_takes_fewer_blocks(name, length, more, memory):
    made = _pool(name, memory, max_model_len=length)

    assert pool.requests_of(made, length, 0) >= pool.requests_of(made, length, more)
    for group in made.groups:
        assert group.blocks_of(length) <= group.blocks_of(length + more)


@given(name=NAMES, size=SIZES, length=LENGTHS)
@settings(deadline=None)
def test_a_request_takes_the_blocks_of_all_groups(name, size, length):
    made = _pool(name, 20 * GIB, tensor_parallel=size, max_model_len=length)

    assert made.blocks_per_request == sum(made.blocks_per_request_by_group)
    assert len(made.blocks_per_request_by_group) == len(made.groups)
    assert made.bytes_per_block[0] == max(group.bytes_per_block[0] for group in made.groups)


@given(name=NAMES, memory=st.integers(GIB, 100 * GIB))
@settings(deadline=None)
def test_the_length_that_fits_fits_and_one_token_more_does_not(name, memory):
    made = _pool(name, memory)
    longest = made.max_model_len_that_fits
    if longest >= 1:
        assert _pool(name, memory, max_model_len=longest).fits
    if longest < 2**24:
        assert not _pool(name, memory, max_model_len=longest + 1).fits


@pytest.mark.parametrize("name", sorted(ALL))
def test_more_gpus_never_hold_more_weights_each(name):
    sizes = [
        weights.of(READ[name], engine_of(tensor_parallel=size), "bfloat16").bytes
        for size in (1, 2, 4, 8)
    ]

    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_structure_is_sized_from_end_to_end(name, make_gpu):
    dtype = "fp8" if name == "compressed" else "auto"
    sized = sizing.size(
        READ[name],
        engine_of(kv_cache_dtype=dtype, max_model_len=8192),
        make_gpu(),
        safety_line=0.9,
    )

    assert sized.pool.fits
    assert sized.budget.weights.low < sized.budget.weights.bytes < sized.budget.weights.high
    assert sized.budget.activations.bytes > 0
    assert sized.because


@pytest.mark.parametrize("name", sorted(set(ALL) - {"full attention"}))
def test_a_key_that_is_not_understood_refuses_any_structure(name):
    with pytest.raises(Refused) as refused:
        shape.read(ALL[name] | {"sparse_attention_rank": 4})

    assert refused.value.reason == Reason.MODEL_NOT_SIZED
    assert "sparse_attention_rank" in refused.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(name=NAMES, data=st.data())
@settings(deadline=None, max_examples=300)
def test_whatever_stands_under_a_key_is_sized_or_refused(name, data):
    keys = st.sampled_from(sorted(ALL[name]))
    config = ALL[name] | data.draw(st.dictionaries(keys, JSON, min_size=1, max_size=3))
    assert _outcome(json.loads(json.dumps(config))) in (
        "sized",
        Reason.MODEL_CONFIG_INVALID,
        Reason.MODEL_NOT_SIZED,
        Reason.KV_DTYPE_UNSUPPORTED,  # no backend has heads of such a size
        Reason.LENGTH_INVALID,
    )


def _outcome(config):
    try:
        read = shape.read(config)
        pool.kv_pool(read, engine_of(max_model_len=4096), GIB, HOPPER)
        weights.of(read, engine_of(), "bfloat16")
    except Refused as refused:
        return refused.reason
    return "sized"
