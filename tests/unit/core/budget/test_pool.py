"""Laws of the pool, the two sums of the product's ground, and the configurations it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.budget import kv_dtypes, parallelism, pool, shape
from tidegate.core.budget.engine_config import EngineConfig, Speculative
from tidegate.errors import Refused

GIB = 2**30
HOPPER = (9, 0)


def _model(layers=28, heads=40, kv_heads=40, head_dim=128):
    return shape.read(
        {
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "hidden_size": heads * head_dim,
        }
    )


def _engine(**flags):
    usual = {"max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 2048}
    return EngineConfig(version="0.32.0", **(usual | flags))


@pytest.mark.parametrize(
    ("kv_heads", "tokens", "kv_bytes"), [(40, 4096, 2_348_810_240), (8, 2048, 234_881_024)]
)
def test_kv_bytes_are_two_times_layers_times_kv_heads_times_head_dim_times_tokens_times_bytes(
    kv_heads, tokens, kv_bytes
):
    planned = pool.kv_pool(_model(kv_heads=kv_heads), _engine(), 80 * GIB, HOPPER)

    assert planned.bytes_per_token * tokens == kv_bytes


def test_64_sequences_of_8_kv_heads_fit_an_80_gb_card_beside_14_gb_of_weights():
    left_bytes = 80 * 10**9 - 14 * 10**9
    planned = pool.kv_pool(_model(kv_heads=8), _engine(max_model_len=2048), left_bytes, HOPPER)

    assert 64 * planned.needed_bytes == 64 * 234_881_024  # 15.0 GB, not 75
    assert pool.requests_of(planned, 1024, 1024) >= 64


MODELS = st.builds(
    lambda layers, kv_heads, group, head_dim: _model(layers, kv_heads * group, kv_heads, head_dim),
    layers=st.integers(1, 80),
    kv_heads=st.sampled_from([1, 2, 4, 8, 16]),
    group=st.sampled_from([1, 2, 4, 8]),
    head_dim=st.sampled_from([64, 128, 256]),
)
DTYPES = st.sampled_from(["auto", "fp8", "int8_per_token_head", "int4_per_token_head"])
LENGTHS = st.integers(1, 200_000)
MEMORY = st.integers(0, 200 * GIB)


@given(model=MODELS, dtype=DTYPES, length=LENGTHS, small=MEMORY, more=MEMORY)
@settings(deadline=None)
def test_more_memory_never_holds_less(model, dtype, length, small, more):
    engine = _engine(max_model_len=length, kv_cache_dtype=dtype)
    less = pool.kv_pool(model, engine, small, HOPPER)
    greater = pool.kv_pool(model, engine, small + more, HOPPER)

    assert greater.num_blocks >= less.num_blocks
    assert greater.max_model_len_that_fits >= less.max_model_len_that_fits
    assert greater.fits or not less.fits


@given(model=MODELS, dtype=DTYPES, memory=MEMORY)
@settings(deadline=None)
def test_more_tensor_parallel_never_needs_more_bytes_for_a_token(model, dtype, memory):
    engines = [
        _engine(kv_cache_dtype=dtype, tensor_parallel=size) for size in parallelism.choices(model)
    ]
    tokens = [pool.kv_pool(model, one, memory, HOPPER).bytes_per_token for one in engines]

    assert tokens == sorted(tokens, reverse=True)


@given(model=MODELS, length=LENGTHS, more=LENGTHS, memory=MEMORY)
@settings(deadline=None)
def test_a_longer_request_never_needs_fewer_blocks_or_raises_concurrency(
    model, length, more, memory
):
    short = pool.kv_pool(model, _engine(max_model_len=length), memory, HOPPER)
    long = pool.kv_pool(model, _engine(max_model_len=length + more), memory, HOPPER)

    assert long.blocks_per_request >= short.blocks_per_request
    assert long.max_concurrency <= short.max_concurrency
    assert pool.requests_of(short, length, 0) >= pool.requests_of(short, length, more)


@given(model=MODELS, length=LENGTHS, memory=MEMORY)
@settings(deadline=None)
def test_the_length_that_fits_fits_and_one_token_more_does_not(model, length, memory):
    planned = pool.kv_pool(model, _engine(max_model_len=length), memory, HOPPER)
    longest = planned.max_model_len_that_fits
    if longest >= 1:
        at_limit = pool.kv_pool(model, _engine(max_model_len=longest), memory, HOPPER)
        assert at_limit.fits
    if longest < 2**24:
        beyond = pool.kv_pool(model, _engine(max_model_len=longest + 1), memory, HOPPER)
        assert not beyond.fits


@given(layers=st.integers(1, 200), stages=st.integers(1, 16))
def test_pipeline_stages_share_out_every_layer_and_differ_by_at_most_one(layers, stages):
    ranges = parallelism.stages(layers, min(layers, stages))
    sizes = [len(stage) for stage in ranges]

    assert [index for stage in ranges for index in stage] == list(range(layers))
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)


def test_one_block_is_the_engines_own_so_an_exact_fit_does_not_fit():
    model = _model(32, 32, 8)
    exactly = pool.kv_pool(model, _engine(), GIB, HOPPER)
    with_null_block = pool.kv_pool(model, _engine(), GIB + exactly.bytes_per_block[0], HOPPER)

    assert exactly.needed_bytes == GIB
    assert not exactly.fits
    assert exactly.estimated_max_model_len == 8176
    assert with_null_block.fits


@pytest.mark.parametrize(
    ("dtype", "token_bytes"),
    [
        ("auto", 512),
        ("fp8", 256),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("nvfp4", 144),
        ("turboquant_k8v4", 196),
        ("turboquant_4bit_nc", 134),
        ("turboquant_k3v4_nc", 118),
        ("turboquant_3bit_nc", 102),
    ],
)
def test_bytes_of_a_token_and_head_of_128_by_dtype(dtype, token_bytes):
    assert kv_dtypes.token_head_bytes(dtype, 128, 128, "bfloat16") == token_bytes


def test_turboquant_keeps_the_first_and_last_two_layers_in_16_bits():
    model, engine = _model(32, 32, 8), _engine(kv_cache_dtype="turboquant_k8v4")
    planned = pool.kv_pool(model, engine, 20 * GIB, HOPPER)

    assert planned.block_size == 32
    assert planned.bytes_per_token == 8 * (4 * 512 + 28 * 196)


@pytest.mark.parametrize(
    ("flags", "block_size"),
    [
        ({"kv_cache_dtype": "fp8"}, 32),
        ({"kv_cache_dtype": "int4_per_token_head"}, 64),
        ({"kv_cache_dtype": "auto"}, 16),
        ({"kv_cache_dtype": "fp8", "block_size": 64}, 64),
    ],
)
def test_a_layer_kept_in_16_bits_widens_the_block_until_a_quantised_page_covers_its_own(
    flags, block_size
):
    engine = _engine(kv_cache_skip_layers=(5,), **flags)

    assert pool.kv_pool(_model(32, 32, 8), engine, 20 * GIB, HOPPER).block_size == block_size


def test_a_draft_model_adds_its_layers_to_the_last_stage():
    config = {"num_hidden_layers": 2, "num_attention_heads": 32, "hidden_size": 4096}
    draft = Speculative("eagle3", 3, config | {"num_key_value_heads": 8})
    plain = pool.kv_pool(_model(32, 32, 8), _engine(pipeline_parallel=2), 20 * GIB, HOPPER)
    drafted = pool.kv_pool(
        _model(32, 32, 8), _engine(pipeline_parallel=2, speculative=draft), 20 * GIB, HOPPER
    )

    assert drafted.bytes_per_block[0] == plain.bytes_per_block[0]
    assert drafted.bytes_per_block[1] == plain.bytes_per_block[1] * 18 // 16


def test_ngram_speculation_keeps_no_kv():
    drafted = _engine(speculative=Speculative("ngram", 4))

    assert pool.kv_pool(_model(), drafted, GIB, HOPPER) == pool.kv_pool(
        _model(), _engine(), GIB, HOPPER
    )


@pytest.mark.parametrize(
    ("flags", "capability", "reason"),
    [
        ({"kv_cache_dtype": "int5"}, HOPPER, Reason.KV_DTYPE_UNSUPPORTED),
        ({"kv_cache_dtype": "fp8_ds_mla"}, HOPPER, Reason.KV_DTYPE_UNSUPPORTED),
        ({"kv_cache_dtype": "fp8"}, (7, 5), Reason.KV_DTYPE_UNSUPPORTED),
        ({"kv_cache_dtype": "fp8_per_token_head"}, (8, 0), Reason.KV_DTYPE_UNSUPPORTED),
        ({"kv_cache_dtype": "nvfp4_4over6"}, HOPPER, Reason.KV_DTYPE_UNSUPPORTED),
        ({"kv_cache_skip_layers": (28,)}, HOPPER, Reason.KV_DTYPE_UNSUPPORTED),
        ({"block_size": 24}, HOPPER, Reason.BLOCK_SIZE_UNSUPPORTED),
        ({"attention_backend": "NOPE"}, HOPPER, Reason.ATTENTION_BACKEND_UNSUPPORTED),
        (
            {"attention_backend": "FLASH_ATTN", "kv_cache_dtype": "fp8"},
            (8, 0),
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
        ),
        ({"tensor_parallel": 3}, HOPPER, Reason.PARALLELISM_INVALID),
        ({"tensor_parallel": 16}, HOPPER, Reason.PARALLELISM_INVALID),
        ({"tensor_parallel": 0}, HOPPER, Reason.PARALLELISM_INVALID),
        ({"pipeline_parallel": 29}, HOPPER, Reason.PARALLELISM_INVALID),
        ({"decode_context_parallel": 2}, HOPPER, Reason.PARALLELISM_INVALID),
        ({"max_model_len": 0}, HOPPER, Reason.LENGTH_INVALID),
        ({"speculative": Speculative("mtp", 1)}, HOPPER, Reason.SPECULATION_INVALID),
        ({"speculative": Speculative("eagle", 3)}, HOPPER, Reason.SPECULATION_INVALID),
        ({"speculative": Speculative("medusa", 3)}, HOPPER, Reason.SPECULATION_INVALID),
        ({"model_dtype": "bfloat16"}, (7, 5), Reason.FLAG_UNSUPPORTED),
    ],
)
def test_what_the_engine_would_refuse_is_refused(flags, capability, reason):
    with pytest.raises(Refused) as refused:
        pool.kv_pool(_model(), _engine(**flags), 20 * GIB, capability)

    assert refused.value.reason == reason
    assert refused.value.field


def test_a_refused_tensor_parallel_says_which_sizes_work():
    with pytest.raises(Refused, match="1, 2, 4, 8 work"):
        pool.kv_pool(_model(), _engine(tensor_parallel=16), GIB, HOPPER)


def test_a_kv_dtype_other_than_the_models_is_refused_from_0_33_on():
    engine = _engine(kv_cache_dtype="float16")

    assert pool.kv_pool(_model(), engine, GIB, HOPPER).block_size == 16
    with pytest.raises(Refused, match="use auto"):
        pool.kv_pool(_model(), replace(engine, version="0.33.0"), GIB, HOPPER)


@pytest.mark.parametrize(
    ("quantization", "token_bytes"),
    [
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, 256),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, 256),
        ({"quant_method": "fp8"}, 512),
    ],
)
def test_auto_follows_a_checkpoint_that_asks_for_a_quantised_cache(quantization, token_bytes):
    config = {"num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 128, "hidden_size": 128}
    model = shape.read(config | {"quantization_config": quantization})

    assert pool.kv_pool(model, _engine(), GIB, HOPPER).bytes_per_token == token_bytes
