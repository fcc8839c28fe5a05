"""The price of a split: bytes of a prompt's KV over the bandwidth, beside the time of prefill."""

from dataclasses import replace

import pytest

from tidegate.core.budget import pool, shape, transfer

GIB = 2**30


def test_a_prompt_moves_its_kv_in_whole_blocks(llama_8b, engine):
    planned = pool.kv_pool(shape.read(llama_8b), engine, 20 * GIB, (9, 0))

    assert transfer.transfer_bytes(planned, 1000) == 63 * 16 * 131072
    assert transfer.transfer_seconds(planned, 1008, 131072 * 1008) == 1.0


@pytest.mark.parametrize(("tensor_parallel", "copies"), [(2, 1), (8, 1), (16, 2)])
def test_all_gpus_of_a_pod_move_their_share_replicated_heads_too(
    llama_8b, engine, tensor_parallel, copies
):
    flags = replace(engine, tensor_parallel=tensor_parallel)
    planned = pool.kv_pool(shape.read(llama_8b), flags, 20 * GIB, (9, 0))

    assert transfer.transfer_bytes(planned, 16) == copies * 16 * 131072


def test_prefill_takes_two_operations_for_each_weight_and_token(llama_8b, make_gpu):
    fast, slow = transfer.prefill_seconds(shape.read(llama_8b), 1000, make_gpu(), 1)
    at_full_rate = 2 * 8.03e9 * 1000 / 989e12

    assert at_full_rate < fast < slow
    assert slow < 8 * at_full_rate


def test_prefill_of_a_long_prompt_grows_faster_than_the_prompt(llama_8b, make_gpu):
    model = shape.read(llama_8b)
    short, _ = transfer.prefill_seconds(model, 1000, make_gpu(), 1)
    long, _ = transfer.prefill_seconds(model, 100_000, make_gpu(), 1)

    assert long > 150 * short


def test_prefill_is_divided_over_the_gpus(llama_8b, make_gpu):
    model = shape.read(llama_8b)
    one, _ = transfer.prefill_seconds(model, 1000, make_gpu(), 1)
    four, _ = transfer.prefill_seconds(model, 1000, make_gpu(), 4)

    assert one == pytest.approx(4 * four)


def test_an_unknown_rate_or_an_abridged_config_gives_no_estimate(llama_8b, make_gpu):
    assert transfer.prefill_seconds(shape.read(llama_8b), 1, make_gpu(bf16_flops=None), 1) is None
    del llama_8b["vocab_size"]
    assert transfer.prefill_seconds(shape.read(llama_8b), 1, make_gpu(), 1) is None


def test_the_speed_of_prefill_is_between_the_ends_of_its_band(llama_8b, make_gpu):
    model = shape.read(llama_8b)
    fast, slow = transfer.prefill_seconds(model, 2048, make_gpu(), 2)
    speed = transfer.prefill_tokens_per_second(model, make_gpu(), 2, 2048)

    assert 2048 / slow < speed < 2048 / fast
    assert transfer.prefill_tokens_per_second(model, make_gpu(bf16_flops=None), 2, 2048) is None


def test_no_model_is_so_small_that_a_step_takes_no_time(llama_8b, make_gpu):
    model = shape.read(llama_8b)
    speed = transfer.prefill_tokens_per_second(model, make_gpu(bf16_flops=1e30), 1, 2048)

    assert speed == 204_800
