"""What each structure keeps of a request, in sums that can be checked by hand."""

import pytest
from tests.unit.core.budget.structures import (
    AMPERE,
    BLACKWELL,
    DEEPSEEK_V3,
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    FALCON_H1,
    GEMMA3,
    GEMMA3N,
    GPT_OSS,
    HOPPER,
    JAMBA,
    KIMI_LINEAR,
    LFM2,
    LLAMA,
    LLAMA4,
    LONGCAT,
    MINICPM3,
    MINIMAX_M3,
    NEMOTRON_H,
    QWEN3_NEXT,
    STEP,
    ZAMBA2,
    engine_of,
    planned,
)

from tidegate.api.reasons import Reason
from tidegate.core.budget import shape, sizing
from tidegate.core.budget.engine_config import Speculative
from tidegate.errors import Refused

LATENT_TOKEN = (512 + 64) * 2  # bytes: the latent and the rotary key, in 16 bits
DRAFTED = Speculative("eagle", 3, LLAMA | {"num_hidden_layers": 1})


def test_a_window_holds_its_tokens_those_in_flight_and_a_block_to_start_in():
    windows, full = planned(GEMMA3).blocks_per_request_by_group[-2:]

    # Asynchronous scheduling has two batches of 8,192 tokens in flight.
    assert windows == -(-(1024 - 1 + 2 * 8192) // 16) + 1
    assert full == 32768 // 16


@pytest.mark.parametrize(
    ("flags", "batches"),
    [
        ({}, 2),
        ({"async_scheduling": False}, 1),
        ({"pipeline_parallel": 2}, 3),
        ({"speculative": Speculative("ngram", 4)}, 1),
    ],
)
def test_more_batches_in_flight_hold_more_of_a_window(flags, batches):
    windows = planned(GEMMA3, **flags).blocks_per_request_by_group[0]

    assert windows == -(-(1024 - 1 + batches * 8192) // 16) + 1


def test_windows_are_split_so_that_all_groups_have_as_many_layers():
    made = planned(GEMMA3)

    assert len(made.groups) == 6  # five of windows, one of full attention, two layers in each
    assert made.bytes_per_block == (2 * 16 * 2 * 8 * 128 * 2,)


def test_without_the_hybrid_manager_windows_keep_all_tokens():
    made = planned(GEMMA3, hybrid_kv_cache=False)

    assert made.blocks_per_request_by_group == (2048,)
    assert made.bytes_per_block == (12 * 16 * 2 * 8 * 128 * 2,)


def test_a_chunk_holds_its_tokens_and_those_in_flight():
    chunks, *_, full = planned(LLAMA4, max_num_batched_tokens=2048).blocks_per_request_by_group

    assert chunks == (8192 + 2 * 2048) // 16
    assert full == 2048


def test_chunks_with_a_draft_of_hidden_states_keep_all_tokens():
    made = planned(LLAMA4, speculative=DRAFTED)

    assert made.blocks_per_request_by_group == (2048,)


def test_layers_that_share_keys_and_values_keep_none_of_their_own():
    alone = planned(GEMMA3N | {"num_kv_shared_layers": 0})

    assert sum(group.bytes_per_block[0] for group in planned(GEMMA3N).groups) < sum(
        group.bytes_per_block[0] for group in alone.groups
    )
    assert planned(GEMMA3N).needed_bytes < alone.needed_bytes


@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_latent_is_on_every_gpu_whole(size):
    made = planned(DEEPSEEK_V3, tensor_parallel=size)

    assert made.bytes_per_token == 6 * LATENT_TOKEN


def test_fp8_latents_keep_scales_where_an_indexer_reads_them():
    plain = planned(DEEPSEEK_V3, kv_cache_dtype="fp8")
    sparse = planned(DEEPSEEK_V32, kv_cache_dtype="fp8_ds_mla")

    assert plain.bytes_per_token == 6 * (512 + 64)
    assert sparse.bytes_per_token == 6 * (656 + 128 + 4)


def test_an_indexer_adds_an_8_bit_key_and_its_scale():
    made = planned(DEEPSEEK_V32)

    assert made.bytes_per_token == 6 * (LATENT_TOKEN + 128 + 4)
    assert made.block_size == 64


def test_context_parallel_divides_the_tokens_of_latents():
    alone, divided = (
        planned(DEEPSEEK_V3, tensor_parallel=8, decode_context_parallel=size) for size in (1, 8)
    )

    assert divided.blocks_per_request == -(-alone.blocks_per_request // 8)


def test_a_layer_for_multi_token_prediction_keeps_what_its_model_keeps():
    made = planned(DEEPSEEK_V3, speculative=Speculative("mtp", 1))

    assert made.bytes_per_token == 7 * LATENT_TOKEN


@pytest.mark.parametrize("config", [NEMOTRON_H, JAMBA, QWEN3_NEXT, LFM2, FALCON_H1])
def test_recurrent_layers_take_as_much_whatever_the_length(config):
    short, long = (planned(config, max_model_len=length) for length in (32768, 131072))
    changed = sum(
        one != other
        for one, other in zip(
            short.blocks_per_request_by_group, long.blocks_per_request_by_group, strict=True
        )
    )

    assert changed == 1  # the group of attention


@pytest.mark.parametrize(
    ("config", "version", "capability", "states"),
    [
        (NEMOTRON_H, "0.32.0", (9, 0), 3),
        (JAMBA, "0.32.0", (9, 0), 2),
        (LFM2, "0.32.0", (9, 0), 2),
        (QWEN3_NEXT, "0.32.0", (9, 0), 2),
        (QWEN3_NEXT, "0.33.0", (9, 0), 3),
        (QWEN3_NEXT, "0.33.0", (8, 0), 2),
    ],
)
def test_prefix_caching_keeps_states_at_the_ends_of_blocks(config, version, capability, states):
    made = planned(config, capability, version=version)
    without = planned(config, capability, version=version, prefix_caching=False)

    assert states in made.blocks_per_request_by_group
    assert 1 in without.blocks_per_request_by_group


def test_each_speculated_token_takes_a_state():
    alone = planned(NEMOTRON_H)
    drafted = planned(NEMOTRON_H, speculative=Speculative("ngram", 4))

    assert drafted.blocks_per_request_by_group[0] == alone.blocks_per_request_by_group[0] + 4


def test_a_block_of_attention_grows_until_it_covers_a_state():
    made = planned(NEMOTRON_H)
    window_bytes = (64 * 64 + 2 * 8 * 128) * 3 * 2
    state_bytes = window_bytes + 64 * 64 * 128 * 4  # the model's default for it is float32
    token_bytes = 2 * 8 * 128 * 2

    assert made.block_size * token_bytes >= state_bytes
    assert (made.block_size - 16) * token_bytes < state_bytes


def test_states_of_32_bits_take_blocks_of_nearly_twice_the_tokens():
    halves = planned(NEMOTRON_H, mamba_ssm_cache_dtype="bfloat16").block_size
    wholes = planned(NEMOTRON_H, mamba_ssm_cache_dtype="float32").block_size

    assert 1.9 * halves < wholes <= 2 * halves


def test_attention_sinks_bar_backends_that_do_not_know_them():
    assert planned(GEMMA3, kv_cache_dtype="nvfp4").num_blocks
    with pytest.raises(Refused, match="attention sinks"):
        planned(GPT_OSS | {"head_dim": 128}, kv_cache_dtype="nvfp4")


def test_a_compressed_model_packs_pages_of_five_kinds_into_one_pool():
    made = planned(DEEPSEEK_V4, kv_cache_dtype="fp8")
    sizes = {group.block_size for group in made.groups}

    assert {4, 8, 64, 256} == sizes
    assert made.block_size == 4  # what the engine hands out is the smallest of them


@pytest.mark.parametrize(
    ("config", "flags", "reason"),
    [
        (DEEPSEEK_V4, {"kv_cache_dtype": "nvfp4"}, Reason.KV_DTYPE_UNSUPPORTED),
        (DEEPSEEK_V3, {"kv_cache_dtype": "nvfp4"}, Reason.KV_DTYPE_UNSUPPORTED),
        (LLAMA4, {"kv_cache_dtype": "turboquant_k8v4"}, Reason.KV_DTYPE_UNSUPPORTED),
        (NEMOTRON_H, {"tensor_parallel": 16}, Reason.PARALLELISM_INVALID),
        (NEMOTRON_H, {"hybrid_kv_cache": False}, Reason.FLAG_UNSUPPORTED),
        (NEMOTRON_H, {"enable_chunked_prefill": False}, Reason.FLAG_UNSUPPORTED),
        (NEMOTRON_H, {"mamba_block_size": 12}, Reason.FLAG_UNSUPPORTED),
        (NEMOTRON_H, {"mamba_block_size": 64, "prefix_caching": False}, Reason.FLAG_UNSUPPORTED),
        (NEMOTRON_H, {"mamba_ssm_cache_dtype": "fp8"}, Reason.FLAG_UNSUPPORTED),
        (LLAMA, {"tensor_parallel": 16, "decode_context_parallel": 3}, Reason.PARALLELISM_INVALID),
    ],
)
def test_what_the_engine_cannot_run_is_refused(config, flags, reason):
    with pytest.raises(Refused) as refused:
        planned(config, **flags)

    assert refused.value.reason == reason


def test_a_state_that_is_handed_out_needs_blocks_of_64_tokens():
    older, newer = (planned(QWEN3_NEXT, version=version) for version in ("0.32.0", "0.33.0"))

    assert older.block_size % 64
    assert newer.block_size % 64 == 0


def test_blackwell_has_other_backends_and_the_same_bytes():
    assert planned(GEMMA3, BLACKWELL).bytes_per_token == planned(GEMMA3).bytes_per_token


def test_the_plan_tells_what_a_window_takes_beside_the_tokens(make_gpu):
    engine = engine_of()
    sized = sizing.size(shape.read(GEMMA3), engine, make_gpu(), safety_line=0.9)
    windows_bytes = 5 * (-(-(1024 - 1 + 2 * 8192) // 16) + 1) * (2 * 16 * 2 * 8 * 128 * 2)

    assert f"take {windows_bytes / 2**20:.2f} MiB beside" in " ".join(sized.because)


@pytest.mark.parametrize(
    ("config", "caching", "block_size", "blocks", "of_request"),
    [
        (KIMI_LINEAR, False, 1920, 4854, (1, 1, 1, 18)),
        (KIMI_LINEAR, True, 1920, 4854, (2, 2, 2, 18)),
        (LONGCAT, True, 16, 145_635, (2048,)),
        (MINICPM3, True, 16, 36_408, (2048,)),
        (MINIMAX_M3, True, 128, 9362, (256,)),
        (STEP, True, 16, 163_840, (2048, 1057, 1057, 1057)),
        (ZAMBA2, False, 48, 9102, (683, 1, 1, 1)),
        (ZAMBA2, True, 48, 9102, (683, 3, 3, 3)),
    ],
)
def test_vllms_own_planner_comes_to_the_same_blocks(
    config, caching, block_size, blocks, of_request
):
    # vLLM 0.32.0's get_kv_cache_configs, given the specs of these layers and 20 GiB
    pool = planned(config, prefix_caching=caching)

    assert pool.block_size == block_size
    assert pool.num_blocks == blocks
    assert pool.blocks_per_request_by_group == of_request


def test_two_attentions_of_a_layer_keep_two_caches_and_its_draft_one():
    plain = planned(LONGCAT)
    drafted = planned(LONGCAT, speculative=Speculative("mtp", 1))

    assert max(plain.bytes_per_block) == 16 * 4 * 2 * 1152
    assert max(drafted.bytes_per_block) == 16 * (4 * 2 + 1) * 1152


@pytest.mark.parametrize(
    ("capability", "more", "states"),
    [
        (HOPPER, {"use_full_rank_gate": True, "gate_lower_bound": -5.0}, 3),
        (HOPPER, {"use_full_rank_gate": True}, 2),
        (AMPERE, {"use_full_rank_gate": True, "gate_lower_bound": -5.0}, 2),
    ],
)
def test_delta_attention_whose_kernel_hands_out_states_keeps_one_more(capability, more, states):
    delta = KIMI_LINEAR["linear_attn_config"] | more
    pool = planned(KIMI_LINEAR | {"linear_attn_config": delta}, capability)

    assert pool.blocks_per_request_by_group[0] == states


def test_an_index_is_whole_on_every_gpu_and_in_16_bits_whatever_the_cache():
    whole, divided, small = (
        max(planned(MINIMAX_M3, **flags).bytes_per_block)
        for flags in ({}, {"tensor_parallel": 4}, {"kv_cache_dtype": "fp8"})
    )
    index_bytes = 128 * 6 * 256

    assert whole - index_bytes == 4 * (divided - index_bytes) == 2 * (small - index_bytes)


@pytest.mark.parametrize(
    ("config", "changed", "field"),
    [
        (KIMI_LINEAR, {"linear_attn_config": {"num_heads": 32}}, "linear_attn_config"),
        (STEP, {"attention_other_setting": {"attention_type": "x"}}, "attention_other_setting"),
        (MINIMAX_M3, {"sparse_attention_config": None}, "sparse_attention_config"),
        (ZAMBA2, {"attention_head_dim": 100}, "attention_head_dim"),
        (STEP, {"moe_layers_enum": "1,x"}, "moe_layers_enum"),
    ],
)
def test_objects_that_describe_layers_are_refused_by_their_key(config, changed, field):
    with pytest.raises(Refused) as refused:
        planned(config | changed)

    assert field in str(refused.value)
