"""A draft is sized as the engine runs it; what it would not start with is refused by its key."""

import pytest
from tests.unit.core.batch.cases import LLAMA

from tidegate.api.reasons import Reason
from tidegate.core.budget import pool, shape
from tidegate.core.command_line import settings
from tidegate.errors import Refused
from tidegate.facts import engines, gpus, models

H100 = gpus.find("NVIDIA-H100-80GB-HBM3", None)
DEEPSEEK = models.find("deepseek-ai/DeepSeek-V3").config
EAGLE = LLAMA | {"num_hidden_layers": 1}
OF_EAGLE = {"method": "eagle", "model": {"config": EAGLE}, "num_speculative_tokens": 3}
OF_NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


def settle(config, target=LLAMA, version="0.32.0", **flags):
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    given = {"max-model-len": 16384, "speculative-config": config, **given}
    return settings.settle(given, shape.read(target), engines.engine(version), H100).engine


def planned(config, target=LLAMA, capability=(9, 0), **flags):
    engine = settle(config, target, **flags)
    return pool.kv_pool(shape.read(target), engine, 2**34, capability)


@pytest.mark.parametrize(
    ("flags", "change", "bytes_per_block"),
    [
        ({"kv_cache_dtype": "fp8"}, {}, 540672),  # 33 layers in 8 bits
        ({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "auto"}, 557056),  # the draft's in 16
        ({"kv_cache_dtype": "fp8"}, {"kv-cache-dtype": "bfloat16"}, 557056),
        ({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "fp8"}, 540672),
        ({}, {}, 1081344),
        ({}, {"kv_cache_dtype": "fp8"}, 1064960),
        ({}, {"kv_cache_dtype": None}, 1081344),
    ],
)
def test_a_draft_has_a_cache_of_its_own_type(flags, change, bytes_per_block):
    of = planned(OF_EAGLE | change, tensor_parallel_size=2, **flags)

    assert of.bytes_per_block == (bytes_per_block,)


@pytest.mark.parametrize("name", ["TRITON_ATTN", "triton_attn"])
def test_a_draft_has_the_backend_that_it_is_told(name):
    engine = settle(OF_EAGLE | {"attention_backend": name})

    assert engine.speculative.attention_backend == "TRITON_ATTN"
    assert engine.attention_backend is None


def test_a_backend_that_cannot_serve_the_draft_is_refused():
    with pytest.raises(Refused, match="FLASHMLA is not one for this model's attention") as refused:
        planned(OF_EAGLE | {"attention_backend": "FLASHMLA"})

    assert refused.value.reason == Reason.ATTENTION_BACKEND_UNSUPPORTED


@pytest.mark.parametrize("backend", ["auto", None])
def test_a_draft_without_a_backend_of_its_own_has_the_models(backend):
    config = OF_EAGLE | {"attention_backend": backend}

    assert settle(config).speculative.attention_backend is None


def test_the_engine_gives_a_draft_model_the_backend_of_its_model():
    own = {"method": "draft_model", "model": {"config": LLAMA}, "num_speculative_tokens": 3}

    assert settle(own | {"attention_backend": "TRITON_ATTN"}).speculative.attention_backend is None


@pytest.mark.parametrize(
    "config",
    [
        {"method": "ngram", "num-speculative-tokens": 3},
        {"method": "ngram", "num_speculative_tokens": 3, "prompt-lookup-max": 4},
        OF_NGRAM | {"prompt_lookup_min": 2, "prompt_lookup_max": 2},
        OF_NGRAM | {"rejection_sample_method": "standard", "moe_backend": None},
        OF_EAGLE | {"draft_tensor_parallel_size": 1, "max_model_len": 2048},
        OF_EAGLE | {"draft_tensor_parallel_size": 2, "revision": "main"},
    ],
)
def test_a_key_that_the_engine_takes_is_taken(config):
    assert settle(config, tensor_parallel_size=2).speculated_tokens == 3


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        (OF_NGRAM | {"bogus": 1}, "bogus", "no such key; remove it"),
        (OF_EAGLE | {"tensor_parallel_size": 2}, "tensor_parallel_size", "use draft_tensor"),
        (
            OF_EAGLE | {"draft_tensor_parallel_size": 3},
            "draft_tensor_parallel_size",
            "3 must be 1 or tensor-parallel-size 2",
        ),
        (
            OF_EAGLE | {"method": "draft_model", "draft_tensor_parallel_size": 1},
            "draft_tensor_parallel_size",
            "not sized; leave it out",
        ),
        (OF_EAGLE | {"kv_cache_dtype": "int3"}, "kv_cache_dtype", "'int3' is none of auto"),
        (OF_EAGLE | {"attention_backend": "FAST"}, "attention_backend", "'FAST' is none of"),
        (OF_EAGLE | {"max_model_len": 65536}, "max_model_len", "above max-model-len 16384"),
        (OF_EAGLE | {"max_model_len": "2k"}, "max_model_len", "whole number of at least 1"),
        (OF_EAGLE | {"parallel_drafting": True}, "parallel_drafting", "leave it out"),
        (OF_EAGLE | {"use_heterogeneous_vocab": True}, "use_heterogeneous_vocab", "vocabulary"),
        (
            OF_EAGLE | {"disable_padded_drafter_batch": "yes"},
            "disable_padded_drafter_batch",
            "must be true or false",
        ),
        (
            OF_NGRAM | {"prompt_lookup_min": 5, "prompt_lookup_max": 2},
            "prompt_lookup_min",
            "5 is above prompt_lookup_max 2",
        ),
        (OF_NGRAM | {"prompt_lookup_max": 0}, "prompt_lookup_max", "at least 1, not 0"),
        (
            OF_NGRAM | {"index_share_for_mtp_iteration": True},
            "index_share_for_mtp_iteration",
            "goes with method mtp alone",
        ),
        ({"method": "mtp"}, "num_speculative_tokens", "is missing; give a whole number"),
        ({"method": "ngram"}, "num_speculative_tokens", "is missing"),
        (
            {"method": "mtp", "model": "my/model", "num_speculative_tokens": 1},
            "model",
            "leave it out where the draft is the model's own",
        ),
    ],
)
def test_a_key_that_the_engine_does_not_take_is_refused_by_its_name(config, key, part):
    with pytest.raises(Refused, match=part) as refused:
        settle(config, tensor_parallel_size=2)

    assert refused.value.reason == Reason.SPECULATION_INVALID
    assert refused.value.field == f"speculative-config.{key}"


@pytest.mark.parametrize("flag", ["spec_method", "spec_tokens"])
def test_a_key_that_a_short_flag_sets_too_is_refused(flag):
    value = 3 if flag == "spec_tokens" else "ngram"

    with pytest.raises(Refused, match=f"given by --{flag.replace('_', '-')} too; leave one"):
        settle(OF_NGRAM, **{flag: value})


@pytest.mark.parametrize(
    ("config", "method", "tokens"),
    [
        ({"method": "mtp", "num_speculative_tokens": 1}, "mtp", 1),
        ({"method": "deepseek_mtp", "num_speculative_tokens": 2}, "mtp", 2),
        ({"method": "mtp", "model": "deepseek-ai/DeepSeek-V3"}, "mtp", 1),
        ({"model": "deepseek-ai/DeepSeek-V3"}, "mtp", 1),  # its config has layers for it
        ({"method": "suffix"}, "suffix", 24),
        ({"method": "suffix", "suffix_decoding_max_tree_depth": 8}, "suffix", 8),
        ({"method": "suffix", "num_speculative_tokens": 4}, "suffix", 4),
    ],
)
def test_method_and_tokens_are_the_engines_where_they_are_left_open(config, method, tokens):
    asked = settle(config, DEEPSEEK).speculative

    assert (asked.method, asked.tokens) == (method, tokens)


@pytest.mark.parametrize(
    ("asked", "name", "method"),
    [
        (None, "org/llama-dflash", "dflash"),
        ("draft_model", "org/EAGLE3-llama", "eagle3"),
        ("eagle", "org/EAGLE3-llama", "eagle"),
        ("dflash", "org/any", "dflash"),
        (None, "org/any", "draft_model"),
        (None, "pkg.MyProposer", "custom_class"),
    ],
)
def test_the_name_of_a_draft_tells_what_the_engine_runs(asked, name, method):
    config = {"model": {"id": name, "config": EAGLE}, "num_speculative_tokens": 3}
    config |= {} if asked is None else {"method": asked}

    assert settle(config).speculative.method == method


@pytest.mark.parametrize("is_asked", [None, False])
@pytest.mark.parametrize("config", [OF_NGRAM, OF_EAGLE | {"disable_padded_drafter_batch": True}])
def test_scheduling_is_synchronous_where_the_draft_needs_it(config, is_asked):
    flags = {} if is_asked is None else {"async_scheduling": is_asked}

    assert settle(config, **flags).async_scheduling is False


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (OF_NGRAM, "speculation by ngram; leave it out"),
        (OF_NGRAM | {"method": "suffix"}, "speculation by suffix"),
        (OF_EAGLE | {"disable_padded_drafter_batch": True}, "disable_padded_drafter_batch"),
    ],
)
def test_asynchronous_scheduling_is_refused_beside_such_a_draft(config, part):
    with pytest.raises(Refused, match=part) as refused:
        settle(config, async_scheduling=True)

    assert refused.value.reason == Reason.FLAG_UNSUPPORTED
    assert refused.value.field == "async-scheduling"


@pytest.mark.parametrize("config", [OF_EAGLE, OF_NGRAM | {"method": "ngram_gpu"}])
def test_asynchronous_scheduling_may_be_asked_for_beside_others(config):
    assert settle(config, async_scheduling=True).async_scheduling is True
