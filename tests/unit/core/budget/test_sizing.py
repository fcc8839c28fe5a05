"""The budget adds up, obeys the safety line, and says what would fit where something does not."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.api.figures import How, estimated
from tidegate.api.reasons import Reason
from tidegate.core.budget import shape, sizing
from tidegate.core.budget.engine_config import EngineConfig, Speculative
from tidegate.core.budget.sizing import Workload
from tidegate.core.command_line import sized as command_line
from tidegate.errors import Refused
from tidegate.facts import engines

GIB, MIB = 2**30, 2**20
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
}


@pytest.fixture
def size(llama_8b, engine, make_gpu):
    def run(*, config=None, flags=None, gib=79.18, gpu=None, line=0.9, **given):
        return sizing.size(
            shape.read(config or llama_8b),
            replace(engine, **(flags or {})),
            gpu or make_gpu(gib),
            safety_line=line,
            **given,
        )

    return run


@given(
    gib=st.floats(48, 288),
    line=st.floats(0.7, 0.98),
    tokens=st.integers(512, 16384),
    sequences=st.integers(1, 1024),
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    is_eager=st.booleans(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_lines_add_up_to_the_card_exactly(
    size, gib, line, tokens, sequences, tensor_parallel, is_eager
):
    flags = {
        "max_num_batched_tokens": tokens,
        "max_num_seqs": sequences,
        "tensor_parallel": tensor_parallel,
        "enforce_eager": is_eager,
    }
    sized = size(gib=gib, line=line, flags=flags)
    budget = sized.budget

    assert sum(figure.bytes for figure in budget.lines) == budget.total.bytes
    assert all(figure.low <= figure.bytes <= figure.high for figure in budget.lines)
    assert sized.gpu_memory_utilization <= line + 1e-9
    assert budget.kv_cache.bytes == sized.pool.num_blocks * max(sized.pool.bytes_per_block)


def test_the_engines_own_accounting_arrives_at_the_same_kv_cache(size):
    sized = size()
    budget = sized.budget
    requested = -(-budget.total.bytes * 9 // 10)
    context_bytes = int(0.55 * GIB)
    engine_finds = requested - sum(
        figure.bytes for figure in (budget.weights, budget.activations, budget.cuda_graphs)
    )
    engine_finds -= budget.runtime.bytes - context_bytes

    assert sized.gpu_memory_utilization == 0.9
    assert 0 <= engine_finds - budget.kv_cache.bytes < max(sized.pool.bytes_per_block) + MIB


def test_a_small_card_is_asked_for_less_than_the_line_so_that_the_context_has_room(size):
    sized = size(config=TINY, gib=4.75, line=0.95, flags={"max_model_len": 2048})

    assert sized.gpu_memory_utilization < 0.95
    assert sized.budget.total.bytes * (1 - sized.gpu_memory_utilization) >= 0.55 * GIB
    assert sized.budget.reserve.bytes >= 0
    assert any("room for the CUDA context" in sentence for sentence in sized.because)


def test_a_ceiling_becomes_exactly_the_bytes_that_are_rendered(size):
    sized = size(kv_cache_bytes=10 * GIB)

    assert sized.kv_cache_memory_bytes == 10 * GIB
    assert sized.budget.kv_cache.bytes == 10 * GIB
    assert sized.budget.kv_cache.how == How.EXACT
    assert sized.pool.num_blocks == 10 * GIB // max(sized.pool.bytes_per_block)


@pytest.mark.parametrize("product", ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"])
def test_a_tiny_model_with_a_ceiling_of_a_few_mebibytes_is_planned_on_any_card(
    size, make_gpu, product
):
    sized = size(
        config=TINY,
        gpu=make_gpu(79.15, product=product),
        flags={"max_model_len": 2048, "block_size": 32, "max_num_seqs": 16},
        kv_cache_bytes=4 * MIB,
    )

    assert sized.pool.bytes_per_token == 1024
    assert sized.pool.num_blocks == 128
    assert sized.kv_cache_memory_bytes == 4 * MIB


def test_a_ceiling_that_is_no_whole_number_of_blocks_is_rounded_down_in_the_table(size):
    sized = size(kv_cache_bytes=10 * GIB + 12345)

    assert sized.kv_cache_memory_bytes == 10 * GIB + 12345
    assert sized.budget.kv_cache.bytes == 10 * GIB
    assert sum(line.bytes for line in sized.budget.lines) == sized.budget.total.bytes


def test_a_ceiling_above_what_fits_is_refused_with_what_would(size):
    fitting = size().budget.kv_cache.bytes
    with pytest.raises(Refused) as refused:
        size(kv_cache_bytes=70 * GIB)

    assert refused.value.reason == Reason.BUDGET_TOO_SMALL
    assert refused.value.field == "spec.budget.kvCache"
    named = int(refused.value.message.rpartition("(")[2].split()[0])
    assert 0 <= named - fitting < 2 * MIB
    assert size(kv_cache_bytes=named).kv_cache_memory_bytes == named


def test_a_ceiling_too_small_for_one_request_names_one_that_holds_it(size):
    with pytest.raises(Refused) as refused:
        size(kv_cache_bytes=GIB)

    assert refused.value.reason == Reason.BUDGET_TOO_SMALL
    assert "maxModelLen 8176 fits" in refused.value.message
    needed = int(refused.value.message.rpartition("kvCache of ")[2].split()[0])
    assert size(kv_cache_bytes=needed).requests_at_max_model_len == 1
    with pytest.raises(Refused):
        size(kv_cache_bytes=needed - 1)


def test_weights_that_do_not_fit_name_the_smallest_tensor_parallel_that_does(size):
    with pytest.raises(Refused) as refused:
        size(gib=15)

    assert refused.value.reason == Reason.WEIGHTS_DO_NOT_FIT
    assert "tensorParallel 2 fits" in refused.value.message
    assert size(gib=15, flags={"tensor_parallel": 2}).requests_at_max_model_len >= 1


@pytest.mark.parametrize("part", [{"mig_profile": "1g.10gb"}, {"is_mps": True, "sharers": 2}])
def test_weights_that_do_not_fit_a_part_of_a_card_are_not_divided_over_parts(size, make_gpu, part):
    with pytest.raises(Refused) as refused:
        size(gpu=replace(make_gpu(9.75), **part))

    assert refused.value.reason == Reason.WEIGHTS_DO_NOT_FIT
    assert "tensorParallel" not in refused.value.message
    assert "whole cards" in refused.value.message


def test_nothing_that_fits_is_said_plainly(size):
    with pytest.raises(Refused, match="no larger tensorParallel fits either"):
        size(gib=1.5)


def test_a_length_that_is_too_long_names_the_one_that_fits(size):
    with pytest.raises(Refused) as refused:
        size(gib=23.6, flags={"max_model_len": 131072})

    assert refused.value.reason == Reason.BUDGET_TOO_SMALL
    longest = int(refused.value.message.split("maxModelLen ")[2].split()[0])
    assert size(gib=23.6, flags={"max_model_len": longest}).pool.fits
    with pytest.raises(Refused):
        size(gib=23.6, flags={"max_model_len": longest + 1})


def test_measured_activations_replace_the_estimate(size):
    sized = size(activations_bytes=6 * GIB)

    assert sized.budget.activations.bytes == 6 * GIB
    assert sized.budget.activations.how == How.MEASURED
    assert sized.budget.kv_cache.bytes < size().budget.kv_cache.bytes


def test_a_checkpoint_size_stands_in_for_what_the_config_does_not_tell(size, llama_8b):
    del llama_8b["intermediate_size"], llama_8b["vocab_size"]
    sized = size(config=llama_8b, weights_bytes=16 * GIB)

    assert sized.budget.weights.bytes == 16 * GIB


def test_the_workload_is_counted_in_whole_blocks_of_prompt_and_output(size):
    sized = size(workload=Workload(prompt_tokens_p95=4000, output_tokens_p95=1000))

    assert sized.requests_at_p95 == sized.pool.num_blocks // 313
    assert sized.requests_at_max_model_len == sized.pool.num_blocks // 1024
    assert size().requests_at_p95 is None


def test_a_draft_is_counted_in_its_own_line_and_in_the_bytes_of_a_token(size, llama_8b):
    draft = Speculative("eagle3", 3, llama_8b | {"num_hidden_layers": 1})
    sized = size(flags={"speculative": draft})

    assert sized.budget.draft.bytes > 0
    assert sized.pool.bytes_per_token == 33 * 4096
    assert any("eagle3 draft" in sentence for sentence in sized.because)


def test_without_cuda_graphs_their_bytes_go_to_kv(size):
    eager = size(flags={"enforce_eager": True})

    assert eager.budget.cuda_graphs.bytes == 0
    assert eager.budget.kv_cache.bytes > size().budget.kv_cache.bytes


def test_more_batched_tokens_and_more_sequences_leave_less_for_kv(size):
    kv_bytes = [
        size(flags={"max_num_batched_tokens": tokens, "max_num_seqs": sequences}).budget.kv_cache
        for tokens, sequences in [(2048, 64), (8192, 64), (16384, 256), (16384, 1024)]
    ]

    assert [kv.bytes for kv in kv_bytes] == sorted((kv.bytes for kv in kv_bytes), reverse=True)


def test_the_cards_own_band_is_part_of_the_band_of_kv(size, make_gpu):
    total = int(79.18 * GIB)
    vague = make_gpu(cuda_total=estimated(total, total - GIB, total + GIB))
    known, guessed = size().budget.kv_cache, size(gpu=vague).budget.kv_cache

    assert guessed.bytes == known.bytes
    assert known.low - guessed.low == pytest.approx(0.9 * GIB, abs=MIB)


def test_because_tells_the_numbers_in_the_order_of_the_arithmetic(size):
    sized = size(flags={"tensor_parallel": 2}, workload=Workload(4000, 1000))

    assert sized.because[0] == "8 KV heads over tensorParallel 2 leave 4 on each GPU"
    assert "65,536 bytes of KV on each GPU" in sized.because[1]
    assert "safety line" in sized.because[2]
    assert f"{sized.requests_at_p95} requests of 5,000 tokens" in sized.because[-1]


def test_replicated_kv_heads_are_said_to_be(size):
    sized = size(flags={"tensor_parallel": 16})

    assert sized.because[0] == "8 KV heads over tensorParallel 16 are replicated: 1 on each GPU"


def test_a_card_of_unknown_compute_capability_is_refused(size, make_gpu):
    with pytest.raises(Refused) as refused:
        size(gpu=make_gpu(compute_capability=None))

    assert refused.value.reason == Reason.GPU_UNKNOWN


def test_a_shared_card_is_said_to_be(size, make_gpu):
    assert "shared by time" in size(gpu=make_gpu(is_shared=True)).because[-1]


def test_engines_before_0_21_leave_cuda_graphs_out_of_their_accounting(size):
    old = size(flags={"version": "0.20.0"})

    assert sum(line.bytes for line in old.budget.lines) == old.budget.total.bytes
    assert old.budget.cuda_graphs.bytes > 0


def test_an_engine_config_has_the_engines_defaults():
    usual = EngineConfig("0.32.0", 4096, 256, 8192)

    assert (usual.kv_cache_dtype, usual.tensor_parallel, usual.prefix_caching) == ("auto", 1, True)


def test_a_plan_that_rests_on_its_estimates_says_so(size):
    longest = size(flags={"max_model_len": 16}).pool.max_model_len_that_fits
    tight = size(flags={"max_model_len": longest})
    roomy = size(flags={"max_model_len": 16384})

    assert "if every estimate is as high as its band" in tight.because[-1]
    assert not any("as high as its band" in sentence for sentence in roomy.because)


def test_an_override_of_blocks_beyond_the_memory_is_refused(size):
    blocks = size().pool.num_blocks

    assert size(flags={"num_gpu_blocks_override": blocks}).pool.num_blocks == blocks
    with pytest.raises(Refused, match=f"{blocks} blocks fit"):
        size(flags={"num_gpu_blocks_override": blocks + 1})


def test_blocks_that_the_user_fixed_must_hold_one_request(size):
    flags = {"num_gpu_blocks_override": 100, "max_model_len": 8192}
    with pytest.raises(
        Refused, match=r"takes 512 blocks.* allows 100; maxModelLen 1584 fits"
    ) as no:
        size(flags=flags)

    assert no.value.reason == Reason.BUDGET_TOO_SMALL
    assert size(flags=flags | {"num_gpu_blocks_override": 513}).pool.fits
    assert size(flags=flags | {"max_model_len": 1584}).pool.fits


def test_an_automatic_length_fits_the_blocks_that_the_user_fixed(llama_8b, make_gpu):
    arguments = {"max-model-len": -1, "num-gpu-blocks-override": 100}
    sized = command_line.size(
        arguments, shape.read(llama_8b), engines.engine("0.32.0"), make_gpu(79.18)
    )

    assert sized.settings.engine.max_model_len == 99 * 16
