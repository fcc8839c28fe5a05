"""What flags leave open takes the engine's own default for its version and GPU."""

import pytest
from tests.unit.core.batch.cases import LLAMA

from tidegate.api.reasons import Reason
from tidegate.core.budget import shape
from tidegate.core.budget.sizing import Workload
from tidegate.core.command_line import settings, sized
from tidegate.errors import Refused
from tidegate.facts import engines, gpus

MODEL = shape.read(LLAMA)
ENGINE = engines.engine("0.32.0")
H100 = gpus.find("NVIDIA-H100-80GB-HBM3", None)
A100 = gpus.find("NVIDIA-A100-SXM4-80GB", None)
B200 = gpus.find("NVIDIA-B200", None)
L4 = gpus.find("NVIDIA-L4", None)


def settle(gpu=H100, **flags):
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return settings.settle(given, MODEL, ENGINE, gpu)


@pytest.mark.parametrize(
    ("gpu", "flags", "seqs", "tokens"),
    [
        (H100, {}, 1024, 8192),
        (A100, {}, 256, 2048),  # the engine knows it by its name
        (B200, {}, 1024, 16384),
        (L4, {}, 256, 2048),
        (H100, {"performance_mode": "throughput"}, 2048, 16384),
        (H100, {"max_num_batched_tokens": 512}, 512, 512),
        (H100, {"max_num_seqs": 4, "max_model_len": 100}, 4, 400),
        (H100, {"enable_chunked_prefill": False}, 1024, 131072),
    ],
)
def test_batch_limits_are_the_engines_for_the_gpu(gpu, flags, seqs, tokens):
    engine = settle(gpu, **flags).engine

    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (seqs, tokens)


def test_absent_flags_take_the_engines_defaults():
    settled = settle()

    assert settled.memory_share == 0.92
    assert settled.engine.max_model_len == 131072
    assert settled.engine.prefix_caching is True
    assert settled.engine.enforce_eager is False
    assert settled.engine.async_scheduling is None
    assert settled.notes == ()


@pytest.mark.parametrize(
    "flags",
    [
        {"enforce_eager": True},
        {"optimization_level": "0"},
        {"compilation_config": {"cudagraph_mode": "NONE"}},
    ],
)
def test_graphs_are_off_however_it_is_said(flags):
    assert settle(**flags).engine.enforce_eager is True


@pytest.mark.parametrize(
    ("flags", "sizes", "largest", "mode"),
    [
        ({}, None, None, None),
        ({"cudagraph_capture_sizes": [8, 1, 8]}, (1, 8), None, None),
        ({"max_cudagraph_capture_size": 64}, None, 64, None),
        ({"compilation_config": {"cudagraph_capture_sizes": [4, 2]}}, (2, 4), None, None),
        ({"compilation_config": {"max_cudagraph_capture_size": 16}}, None, 16, None),
        ({"compilation_config": {"cudagraph_mode": "piecewise"}}, None, None, "PIECEWISE"),
    ],
)
def test_which_graphs_are_captured_is_settled_by_flag_or_key(flags, sizes, largest, mode):
    engine = settle(**flags).engine

    assert (engine.capture_sizes, engine.largest_capture_size) == (sizes, largest)
    assert engine.graph_mode == mode


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"compilation_config": {"cudagraph_capture_sizes": []}}, "cudagraph-capture-sizes"),
        ({"compilation_config": {"cudagraph_capture_sizes": [0]}}, "cudagraph-capture-sizes"),
        ({"compilation_config": {"cudagraph_capture_sizes": ["x"]}}, "cudagraph-capture-sizes"),
        ({"max_cudagraph_capture_size": 0}, "max-cudagraph-capture-size"),
        (
            {"cudagraph_capture_sizes": [8], "max_cudagraph_capture_size": 16},
            "max-cudagraph-capture-size",
        ),
    ],
)
def test_sizes_of_graphs_that_the_engine_would_not_take_are_refused(flags, named):
    with pytest.raises(Refused) as refused:
        settle(**flags)

    assert refused.value.reason == Reason.FLAG_UNSUPPORTED
    assert named in str(refused.value.field)


@pytest.mark.parametrize(
    ("config", "method", "is_async"),
    [
        ({"method": "ngram"}, "ngram", False),
        ({"method": "ngram_gpu"}, "ngram_gpu", None),
        ({"model": "ngram"}, "ngram", False),
        ({"model": {"id": "org/EAGLE3-llama", "config": LLAMA}}, "eagle3", None),
        ({"model": {"id": "org/EAGLE-llama", "config": LLAMA}}, "eagle", None),
        ({"model": {"config": LLAMA}}, "draft_model", None),
        ({"method": "eagle", "model": "meta-llama/Llama-3.1-8B"}, "eagle", None),
    ],
)
def test_a_draft_is_what_the_engine_takes_it_for(config, method, is_async):
    engine = settle(speculative_config=config | {"num_speculative_tokens": 3}).engine

    assert engine.speculative.method == method
    assert engine.speculative.tokens == 3
    assert engine.async_scheduling is is_async


def test_the_short_flags_of_speculation_are_the_same_object():
    assert settle(spec_method="ngram", spec_tokens=2) == settle(
        speculative_config={"method": "ngram", "num_speculative_tokens": 2}
    )


def test_a_draft_that_nobody_knows_is_refused_with_the_fix():
    with pytest.raises(Refused, match=r"nobody/draft.*config"):
        settle(
            speculative_config={"method": "eagle", "model": "nobody/draft"}
            | {"num_speculative_tokens": 1}
        )


def test_an_automatic_length_is_lowered_to_what_fits():
    found = sized.size({"max-model-len": -1}, MODEL, ENGINE, L4)

    assert 0 < found.settings.engine.max_model_len < 131072
    assert found.sizing.pool.fits
    assert found.sizing.requests_at_max_model_len == 1


def test_a_workload_longer_than_a_request_is_refused():
    with pytest.raises(Refused, match="4096"):
        sized.size({"max-model-len": 4096}, MODEL, ENGINE, H100, Workload(4000, 1000))


@pytest.mark.parametrize(
    ("flags", "is_on"),
    [
        ({}, True),
        ({"disable_hybrid_kv_cache_manager": True}, False),
        ({"kv_transfer_config": {"kv_connector": "NixlConnector"}}, True),
        ({"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1"}}, False),
        ({"kv_transfer_config": {"kv_connector": "OurOwnConnector"}}, True),
        (
            {
                "kv_transfer_config": {
                    "kv_connector": "MultiConnector",
                    "kv_connector_extra_config": {
                        "connectors": [
                            {"kv_connector": "NixlConnector"},
                            {"kv_connector": "LMCacheConnectorV1"},
                        ]
                    },
                }
            },
            False,
        ),
    ],
)
def test_a_connector_without_hybrid_kv_turns_the_manager_off(flags, is_on):
    assert settle(**flags).engine.hybrid_kv_cache is is_on


def test_the_manager_cannot_be_asked_for_beside_such_a_connector():
    with pytest.raises(Refused, match="LMCacheConnectorV1"):
        settle(
            disable_hybrid_kv_cache_manager=False,
            kv_transfer_config={"kv_connector": "LMCacheConnectorV1"},
        )


def test_every_flag_that_shapes_the_pool_reaches_the_sizing():
    engine = settle(
        mamba_block_size=64,
        mamba_cache_dtype="float32",
        mamba_ssm_cache_dtype="float32",
        kv_cache_dtype_skip_layers=["0", "31", "sliding_window"],
        num_gpu_blocks_override=5000,
        decode_context_parallel_size=2,
        data_parallel_size=4,
        enable_expert_parallel=True,
        enable_prefix_caching=False,
        enable_chunked_prefill=False,
        async_scheduling=False,
        block_size=32,
    ).engine

    assert engine.mamba_block_size == 64
    assert engine.mamba_cache_dtype == engine.mamba_ssm_cache_dtype == "float32"
    assert engine.kv_cache_skip_layers == (0, 31)
    assert engine.kv_cache_skip_windows is True
    assert engine.num_gpu_blocks_override == 5000
    assert engine.decode_context_parallel == 2
    assert (engine.data_parallel, engine.expert_parallel) == (4, True)
    assert (engine.prefix_caching, engine.enable_chunked_prefill) == (False, False)
    assert engine.async_scheduling is False
    assert engine.block_size == 32
