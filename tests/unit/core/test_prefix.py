"""A shared prefix is kept once: what that does to the number of requests that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import prefix
from tidegate.core.budget import pool as pools
from tidegate.core.budget import shape
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.facts import models

LLAMA = shape.read(models.find("Qwen/Qwen3-32B").config)


def pool(blocks=1000):
    engine = EngineConfig("0.32.0", 32768, 256, 8192)
    laid_out = pools.layout(LLAMA, engine, (9, 0))
    return pools.pool_of(laid_out, blocks * max(laid_out.bytes_per_block))


def test_only_whole_blocks_of_a_prefix_are_shared():
    assert [prefix.shared_blocks(pool(), tokens) for tokens in (15, 16, 800, 815)] == [0, 1, 50, 50]


def test_a_shared_prefix_leaves_room_for_more_requests():
    # 5,000 tokens take 313 blocks; with 4,000 of them shared, 250 blocks are kept once and each
    # request adds 63 of its own
    assert prefix.requests_of(pool(), 4500, 500) == 1000 // 313
    assert prefix.requests_of(pool(), 4500, 500, 4000) == (1000 - 250) // 63


class Window:
    """A group of layers that keep the last 1,024 tokens only."""

    block_size = 16
    bytes_per_block = (1,)

    def blocks_of(self, tokens):
        return -(-min(tokens, 1024) // 16) + 1


def test_a_window_shares_nothing_since_it_lets_go_of_the_prefix():
    assert not prefix._keeps_all(Window())
    assert all(prefix._keeps_all(group) for group in pool().groups)


@given(
    prompt=st.integers(2, 20_000),
    output=st.integers(1, 4_000),
    shared=st.integers(0, 20_000),
    blocks=st.integers(1, 5_000),
)
def test_what_is_shared_and_what_is_not_fits_and_one_request_more_does_not(
    prompt, output, shared, blocks
):
    shared = min(shared, prompt - 1)
    there = pool(blocks)
    requests = prefix.requests_of(there, prompt, output, shared)
    kept = prefix.shared_blocks(there, shared)
    own = -(-(prompt + output) // 16) - kept

    assert own >= 1
    assert kept + requests * own <= blocks or requests == 0
    assert kept + (requests + 1) * own > blocks


@pytest.mark.parametrize("length", [1, 100, 4096])
def test_without_a_shared_prefix_it_counts_as_the_engine_does(length):
    assert prefix.requests_of(pool(), length, 1) == pools.requests_of(pool(), length, 1)
