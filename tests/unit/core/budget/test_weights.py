"""Weights follow from the config: what logs show of real checkpoints is the measure."""

from dataclasses import replace

import pytest

from tidegate.api.figures import How
from tidegate.api.reasons import Reason
from tidegate.core.budget import draft, shape, weights
from tidegate.core.budget.engine_config import Speculative
from tidegate.errors import Refused
from tidegate.facts import models

GIB = 2**30
QWEN3_32B = {
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
QWEN3_8B = QWEN3_32B | {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
}
LLAMA_70B_FP8 = {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
    },
}
QWEN3_235B_FP8 = QWEN3_32B | {
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1536,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


@pytest.mark.parametrize(
    ("config", "tensor_parallel", "logged_gib"),
    [
        (QWEN3_32B, 1, 61.03),
        (QWEN3_32B, 2, 30.59),
        (QWEN3_8B, 1, 15.2683),
        (LLAMA_70B_FP8, 2, 33.88),
        (QWEN3_235B_FP8, 4, 55.19),
    ],
)
def test_weights_are_within_half_a_percent_of_what_engines_logged(
    engine, config, tensor_parallel, logged_gib
):
    flags = replace(engine, tensor_parallel=tensor_parallel)
    figure = weights.of(shape.read(config), flags, "bfloat16")

    assert figure.bytes / GIB == pytest.approx(logged_gib, rel=0.005)
    assert figure.low <= logged_gib * GIB <= figure.high


def test_tied_embeddings_are_kept_once_on_one_stage_and_on_both_ends_of_several(llama_8b, engine):
    def bytes_of(tied, stages):
        model = shape.read(llama_8b | {"tie_word_embeddings": tied})
        flags = replace(engine, pipeline_parallel=stages)
        return weights.of(model, flags, "bfloat16").bytes

    embedding_bytes = 128256 * 4096 * 2
    assert bytes_of(False, 1) - bytes_of(True, 1) == embedding_bytes
    assert bytes_of(False, 2) == bytes_of(True, 2)


def test_replicated_kv_heads_cost_every_gpu_a_whole_head(llama_8b, engine):
    model = shape.read(llama_8b | {"num_key_value_heads": 1})
    one_head = 4096 * 2 * 128 * 2 * 32
    eight = weights.of(model, replace(engine, tensor_parallel=8), "bfloat16").bytes
    sixteen = weights.of(model, replace(engine, tensor_parallel=16), "bfloat16").bytes

    assert sixteen > eight / 2 + one_head / 2 - 1


def test_a_declared_checkpoint_size_is_divided_as_the_arithmetic_says(llama_8b, engine):
    model, flags = shape.read(llama_8b), replace(engine, tensor_parallel=2, pipeline_parallel=2)
    figure = weights.of(model, flags, "bfloat16", 40 * GIB)
    by_arithmetic = (
        weights.of(model, flags, "bfloat16").bytes / weights.of(model, engine, "bfloat16").bytes
    )

    assert figure.how == How.MEASURED
    assert figure.bytes / (40 * GIB) == pytest.approx(by_arithmetic, rel=0.005)
    assert figure.bytes > 10 * GIB  # the head is on the last stage, beside its layers


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "intermediate_size"])
def test_an_abridged_config_is_asked_for_the_missing_key(llama_8b, engine, key):
    del llama_8b[key]
    model = shape.read(llama_8b | {"head_dim": 128})
    with pytest.raises(Refused) as refused:
        weights.of(model, engine, "bfloat16")

    assert refused.value.reason == Reason.MODEL_CONFIG_INVALID
    assert refused.value.field == f"spec.model.config.{key}"
    assert "spec.model.weights.bytes" in refused.value.message
    assert weights.of(model, engine, "bfloat16", 16 * GIB).bytes == 16 * GIB


@pytest.mark.parametrize(
    ("quantization", "share"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1.0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5625),
        ({"quant_method": "fp8"}, 1.0),
    ],
)
def test_quantised_weights_carry_their_scales(llama_8b, engine, quantization, share):
    plain = weights.of(shape.read(llama_8b), engine, "bfloat16").bytes
    model = shape.read(llama_8b | {"quantization_config": quantization})
    linear_elements = 32 * (4096 * (32 + 8) * 2 * 128 + 3 * 4096 * 14336)

    saved = plain - weights.of(model, engine, "bfloat16").bytes
    assert saved == pytest.approx(linear_elements * (2 - share), rel=1e-6)


def test_attention_that_a_checkpoint_leaves_alone_stays_in_16_bits(llama_8b, engine):
    quantization = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    whole = shape.read(llama_8b | {"quantization_config": quantization})
    kept = shape.read(
        llama_8b | {"quantization_config": quantization | {"ignore": ["model.layers.*.self_attn*"]}}
    )

    more = weights.of(kept, engine, "bfloat16").bytes - weights.of(whole, engine, "bfloat16").bytes
    assert more == pytest.approx(32 * 4096 * (32 + 8) * 2 * 128 * (2 - 0.5625), rel=1e-6)


def test_an_unknown_quantisation_asks_for_the_size_of_the_checkpoint(llama_8b, engine):
    model = shape.read(llama_8b | {"quantization_config": {"quant_method": "novel"}})
    with pytest.raises(Refused, match=r"novel.*weights\.bytes"):
        weights.of(model, engine, "bfloat16")
    with pytest.raises(Refused, match="cannot be sized"):
        weights.of(shape.read(llama_8b), replace(engine, quantization="novel"), "bfloat16")


def test_a_flag_quantises_a_16_bit_checkpoint_while_loading(llama_8b, engine):
    plain = weights.of(shape.read(llama_8b), engine, "bfloat16")
    flagged = weights.of(shape.read(llama_8b), replace(engine, quantization="fp8"), "bfloat16")

    assert 0.5 < flagged.bytes / plain.bytes < 0.6


def test_a_vision_tower_widens_the_band(llama_8b, engine):
    tower = {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096}
    wrapper = {
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": llama_8b,
        "vision_config": tower,
    }
    text = weights.of(shape.read(llama_8b), engine, "bfloat16")
    both = weights.of(shape.read(wrapper), engine, "bfloat16")

    assert both.bytes - text.bytes > 24 * (4 * 1024**2 + 3 * 1024 * 4096) * 2
    assert both.high - both.low > text.high - text.low


def test_drafts_are_their_layers_and_a_projection(llama_8b, engine):
    one_layer = llama_8b | {"num_hidden_layers": 1}
    flags = replace(engine, speculative=Speculative("eagle", 3, one_layer))
    model = shape.read(llama_8b)
    drafted = draft.read(model, flags)
    figure = weights.of_draft(model, drafted, flags, "bfloat16")
    layer_elements = 4096 * (32 + 8) * 2 * 128 + 3 * 4096 * 14336 + 2 * 4096

    assert figure.bytes == (layer_elements + 2 * 4096 * 4096) * 2


def test_tokens_pass_through_the_experts_they_are_sent_to_only(llama_8b):
    active, every = weights.parameters(shape.read(QWEN3_235B_FP8))

    assert every == pytest.approx(235e9, rel=0.01)
    assert active == pytest.approx(22e9, rel=0.05)


@pytest.mark.parametrize(
    ("model_id", "tensor_parallel", "logged_gib"),
    [
        ("openai/gpt-oss-120b", 1, 65.9651),  # Marlin, on a Hopper
        ("openai/gpt-oss-20b", 1, 13.72),  # Marlin, on an Ampere
        ("zai-org/GLM-4.5V", 4, 50.31),  # a tower that is divided
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 1, 44.76),
    ],
)
def test_padding_of_kernels_and_towers_are_counted_as_engines_logged_them(
    engine, model_id, tensor_parallel, logged_gib
):
    model = shape.read(models.find(model_id).config)
    figure = weights.of(model, replace(engine, tensor_parallel=tensor_parallel), "bfloat16")

    assert figure.bytes / GIB == pytest.approx(logged_gib, rel=0.005)
    assert figure.low <= logged_gib * GIB <= figure.high


def test_each_gpus_slice_of_an_expert_is_padded(engine):
    model = shape.read(models.find("openai/gpt-oss-20b").config)
    slices, whole = (
        weights.of(
            model, replace(engine, tensor_parallel=8, expert_parallel=is_whole), "bfloat16"
        ).bytes
        for is_whole in (False, True)
    )

    assert slices > whole  # 360 of 2,880 are padded to 384, 2,880 to 2,944


@pytest.mark.parametrize(
    ("model_id", "public_gb"),
    [
        ("deepseek-ai/DeepSeek-V3", 688.6),  # its layer that drafts included, of 11.5
        ("moonshotai/Kimi-K2-Thinking", 594),
        ("Qwen/Qwen3.5-122B-A10B", 244),
        ("MiniMaxAI/MiniMax-M2.5", 230),
    ],
)
def test_checkpoints_come_to_the_sizes_that_their_hubs_show(engine, model_id, public_gb):
    model = shape.read(models.find(model_id).config)
    figure = weights.of(model, engine, "bfloat16")

    assert figure.bytes / 1e9 == pytest.approx(public_gb, rel=0.03)
