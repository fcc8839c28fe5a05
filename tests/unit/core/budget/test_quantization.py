"""Which --quantization the engine takes beside what the checkpoint itself says."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.budget import quantization
from tidegate.errors import Refused

FP8 = {"quant_method": "fp8"}
AWQ = {"quant_method": "awq", "bits": 4}
GPTQ = {"quant_method": "gptq", "bits": 4}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def of_checkpoint(stored_as):
    return quantization.read({"quantization_config": stored_as} if stored_as else {}, {})


@pytest.mark.parametrize(
    ("stored_as", "flag"),
    [
        *((None, flag) for flag in (None, "fp8", "fp8_per_block", "bitsandbytes")),
        *((AWQ, flag) for flag in (None, "awq", "awq_marlin")),
        (GPTQ, "gptq_marlin"),
        (FP8, "fp8"),
        (MODELOPT, "modelopt_fp4"),
    ],
)
def test_what_the_engine_starts_with_is_taken(stored_as, flag):
    quantization.require_possible(of_checkpoint(stored_as), flag, "here")


@pytest.mark.parametrize(
    ("stored_as", "flag", "part"),
    [
        *((None, flag, "stored so") for flag in ("awq", "gptq_marlin", "compressed-tensors")),
        (FP8, "awq", r"quantization_config says \(fp8\)"),
        (AWQ, "fp8", r"says \(awq\)"),
        (AWQ, "gptq", r"says \(awq\)"),
    ],
)
def test_what_ends_the_engine_at_its_start_is_refused(stored_as, flag, part):
    with pytest.raises(Refused, match=part) as refused:
        quantization.require_possible(of_checkpoint(stored_as), flag, "here")

    assert refused.value.reason == Reason.QUANTIZATION_UNSUPPORTED
    assert refused.value.field == "here"


def test_patterns_that_leave_all_but_routed_experts_alone_are_understood():
    packed = {"num_bits": 4, "group_size": 32, "type": "float", "scale_dtype": "torch.uint8"}
    config = {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": packed}},
            "ignore": [
                r"re:.*self_attn.*",
                r"re:.*shared_experts.*",
                r"re:.*mlp\.(gate|up)_proj.*",
            ],
        }
    }
    found = quantization.read(config, config)

    assert found.bytes_per_element == 0.5 + 1 / 32
    assert not found.quantizes_attention
    assert not found.quantizes_dense


def test_modules_that_are_listed_with_their_types_count_by_what_they_belong_to():
    layer = "model.layers.0"
    config = {
        "quantization_config": {
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                f"{layer}.linear_attn.out_proj": {"quant_algo": "FP8"},
                f"{layer}.mlp.experts": {"quant_algo": "W4A16_NVFP4"},
                f"{layer}.mlp.shared_expert.up_proj": {"quant_algo": "NVFP4"},
                f"{layer}.odd": 7,
            },
        }
    }
    found = quantization.read(config, config)

    assert found.method == "modelopt"
    assert found.attention_bytes_per_element == 1
    assert found.expert_bytes_per_element == found.bytes_per_element == 0.5625


@pytest.mark.parametrize(
    ("names", "attention", "dense"),
    [
        (["lm_head"], True, True),
        ([f"model.layers.{index}.self_attn*" for index in range(24)], False, True),
        ([f"model.layers.{index}.self_attn.kv_b_proj" for index in range(24)], False, True),
        ([f"model.layers.{index}.self_attn.indexer*" for index in range(24)], True, True),
        ([f"model.layers.{index}.self_attn.q_a_layernorm" for index in range(24)], True, True),
        ([f"model.layers.{index}.mlp.shared_experts*" for index in range(24)], True, False),
        ([f"model.layers.{index}.mlp.gate" for index in range(24)], True, True),
        ([f"model.layers.{index}.mlp*" for index in range(24)], True, False),
        (["re:.*self_attn.*"], False, True),
        (["model.layers.0.self_attn.q_proj"], True, True),  # one layer is not all of them
    ],
)
def test_what_a_checkpoint_leaves_alone_is_told_from_norms_and_routers(names, attention, dense):
    config = {"quantization_config": {"quant_method": "fp8", "ignore": names}}
    found = quantization.read(config, config)

    assert (found.quantizes_attention, found.quantizes_dense) == (attention, dense)
