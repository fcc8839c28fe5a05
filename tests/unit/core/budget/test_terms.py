"""Activations, CUDA graphs and runtime, judged by what public logs show; and their constants."""

from dataclasses import replace

import pytest

from tidegate.core.budget import activations, bands, graphs, runtime, shape, weights
from tidegate.core.budget.engine_config import Speculative
from tidegate.facts import budget_terms

GIB = 2**30


def _model(hidden, intermediate, vocabulary, **more):
    return shape.read(
        {
            "num_hidden_layers": 64,
            "num_attention_heads": hidden // 128,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "vocab_size": vocabulary,
        }
        | more
    )


QWEN3_32B = _model(5120, 25600, 151936, num_attention_heads=64)
LLAMA_8B = _model(4096, 14336, 128256)
MISTRAL_24B = _model(5120, 32768, 131072)
QWEN_1_5B = _model(1536, 8960, 151936, num_attention_heads=16)
QWEN3_235B = _model(
    4096,
    12288,
    151936,
    num_attention_heads=64,
    num_key_value_heads=4,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=1536,
)


@pytest.mark.parametrize(
    ("model", "version", "tensor_parallel", "tokens", "sequences", "logged_gib"),
    [
        (LLAMA_8B, "0.10.2", 1, 8192, 1024, 4.76),
        (QWEN3_32B, "0.10.2", 1, 8192, 1024, 5.64),
        (QWEN3_32B, "0.10.2", 2, 8192, 1024, 5.64),
        (QWEN_1_5B, "0.10.2", 1, 2048, 256, 1.40),
        (MISTRAL_24B, "0.11.0", 1, 8192, 1024, 2.12),
        (QWEN3_235B, "0.24.0", 4, 8192, 32, 0.76),
    ],
)
def test_activations_are_within_5_percent_of_what_engines_of_their_time_logged(
    engine, model, version, tensor_parallel, tokens, sequences, logged_gib
):
    flags = replace(
        engine,
        version=version,
        tensor_parallel=tensor_parallel,
        max_num_batched_tokens=tokens,
        max_num_seqs=sequences,
    )
    figure = activations.of(model, flags, "bfloat16")

    assert figure.bytes / GIB == pytest.approx(logged_gib, rel=0.05)
    assert figure.low <= logged_gib * GIB <= figure.high


def test_activations_of_an_abridged_config_go_by_the_width_of_its_heads(engine):
    config = {"num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 128}
    figure = activations.of(shape.read(config), engine, "bfloat16")

    assert figure.bytes >= 3 * 8192 * 1024 * 2


def test_graphs_are_captured_on_the_engines_ladder_of_batch_sizes(engine):
    few = replace(engine, max_num_seqs=32)

    assert graphs.capture_sizes(few, (9, 0)) == (1, 2, 4, *range(8, 65, 8))
    assert graphs.capture_sizes(engine, (9, 0))[-1] == 512
    assert graphs.capture_sizes(replace(engine, max_num_seqs=1024), (10, 0))[-1] == 1024
    drafted = replace(few, speculative=Speculative("ngram", 3))
    assert graphs.capture_sizes(drafted, (9, 0))[-1] == 256


def test_graph_bytes_match_a_log_of_32_sequences(engine):
    model = _model(4096, 12288, 151936, num_hidden_layers=94)
    figure = graphs.of(model, replace(engine, version="0.24.0", max_num_seqs=32), (12, 0))

    assert figure.bytes / GIB == pytest.approx(0.32, rel=0.1)


@pytest.mark.parametrize(
    ("version", "tensor_parallel", "logged_gib"),
    [("0.11.0", 1, 0.13), ("0.11.0", 2, 0.55), ("0.24.0", 1, 0.56), ("0.24.0", 4, 1.70)],
)
def test_the_band_of_runtime_holds_what_engines_logged(
    engine, version, tensor_parallel, logged_gib
):
    flags = replace(engine, version=version, tensor_parallel=tensor_parallel)
    figure = runtime.inside(LLAMA_8B, flags)

    assert figure.low <= logged_gib * GIB <= figure.high


def test_collectives_are_counted_from_two_gpus_on(engine):
    alone, together = runtime.outside(engine), runtime.outside(replace(engine, tensor_parallel=2))

    assert together.bytes > alone.bytes


@pytest.mark.parametrize(
    ("version", "bytes_per_logit"),
    [("0.10.2", 38.6), ("0.11.0", 15.6), ("0.20.1", 15.6), ("0.21.0", 8.0), ("0.33.0", 8.0)],
)
def test_a_constant_is_that_of_the_engines_time(version, bytes_per_logit):
    assert bands.term("sampler_bytes_per_logit", version).value == bytes_per_logit


def test_an_unreadable_version_is_taken_as_the_newest():
    assert bands.term("sampler_bytes_per_logit", "main").value == 8.0
    assert bands.counts_cuda_graphs("nightly")


def test_every_constant_has_a_band_a_unit_and_a_source():
    for name in budget_terms.term_names():
        term = budget_terms.term(name)
        assert term.low <= term.value <= term.high
        assert term.unit
        assert len(term.source) > 20


def test_the_default_length_is_the_models_own(llama_8b):
    assert shape.read(llama_8b).max_model_len == 131072


@pytest.mark.parametrize(
    ("flags", "captured"),
    [
        ({"capture_sizes": (1, 2, 9000)}, 2 + 2),  # a batch has 8192 tokens
        ({"largest_capture_size": 16}, 5 + 5),
        ({"largest_capture_size": 16, "graph_mode": "FULL_DECODE_ONLY"}, 5),
        ({"largest_capture_size": 16, "graph_mode": "PIECEWISE"}, 5),
        ({"largest_capture_size": 16, "max_num_seqs": 4}, 5 + 3),
        ({"largest_capture_size": 16, "max_num_seqs": 4, "graph_mode": "FULL_DECODE_ONLY"}, 3),
    ],
)
def test_graphs_are_counted_by_the_sizes_and_the_mode_that_are_asked_for(
    llama_8b, engine, flags, captured
):
    model = shape.read(llama_8b)
    figure = graphs.of(model, replace(engine, **flags), (9, 0))

    assert figure.source == f"{captured} graphs of 32 layers"


def test_a_tower_that_is_not_loaded_takes_nothing(llama_8b, engine):
    wrapper = {"text_config": llama_8b, "vision_config": {"hidden_size": 1024, "depth": 24}}
    text_only = replace(engine, language_only=True)

    for term in (weights, activations):
        alone = term.of(shape.read(llama_8b), engine, "bfloat16")
        assert term.of(shape.read(wrapper), text_only, "bfloat16") == alone
        assert term.of(shape.read(wrapper), engine, "bfloat16").bytes > alone.bytes
