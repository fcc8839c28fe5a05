"""What the files of a checkpoint tell takes the place of the arithmetic, and is exact."""

import json
import math
from dataclasses import replace

import pytest
from tests.unit.core.budget import checkpoints

from tidegate.api.figures import How
from tidegate.api.reasons import Reason
from tidegate.core.budget import checkpoint, shape, tensor_roles, weights
from tidegate.core.budget.draft import read as read_draft
from tidegate.core.budget.engine_config import Speculative
from tidegate.core.budget.tensor_roles import Part, Place, Role
from tidegate.errors import Refused

MIXTURE = {
    "model_type": "qwen3_moe",
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 128,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 1024,
}


def with_headers(config, tensors):
    return shape.read(config | {checkpoint.KEY: checkpoint.of_headers(tensors, "the header")})


def with_index(config, index):
    text = json.dumps(index)
    return shape.read(config | {checkpoint.KEY: checkpoint.summary(text, "the index")})


def stored_bytes(shapes, element=2):
    return sum(math.prod(sizes) for sizes in shapes.values()) * element


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"tensor_parallel": 2},
        {"tensor_parallel": 16},  # eight KV heads: two GPUs hold each
        {"tensor_parallel": 4, "pipeline_parallel": 3},
        {"model_dtype": "float32"},
    ],
)
def test_headers_and_arithmetic_agree_on_every_gpu_of_a_model_that_both_know(
    llama_8b, engine, flags
):
    flags, dtype = replace(engine, **flags), flags.get("model_dtype", "bfloat16")
    told = with_headers(llama_8b, checkpoints.header(checkpoints.dense(llama_8b)))
    figure = weights.of(told, flags, dtype)

    assert figure.how is How.EXACT
    assert figure.low == figure.bytes == figure.high
    by_arithmetic = weights.of(shape.read(llama_8b), flags, dtype).bytes
    final_norm_bytes = llama_8b["hidden_size"] * (4 if dtype == "float32" else 2)
    assert figure.bytes - by_arithmetic in (0, final_norm_bytes)


@pytest.mark.parametrize(
    "flags",
    [
        {"tensor_parallel": 4},
        {"tensor_parallel": 4, "expert_parallel": True},
        {"tensor_parallel": 1, "data_parallel": 3, "expert_parallel": True},  # 6, 5 and 5 experts
    ],
)
def test_experts_are_divided_whole_or_sliced_as_the_flags_say(engine, flags):
    told = with_headers(MIXTURE, checkpoints.header(checkpoints.mixture(MIXTURE)))
    flags = replace(engine, **flags)

    by_arithmetic = weights.of(shape.read(MIXTURE), flags, "bfloat16").bytes
    assert weights.of(told, flags, "bfloat16").bytes == pytest.approx(by_arithmetic, abs=600)


def test_an_index_gives_the_total_and_the_rules_divide_it(llama_8b, engine):
    shapes = checkpoints.dense(llama_8b)
    told = with_index(llama_8b, checkpoints.index(shapes, stored_bytes(shapes)))
    alone = weights.of(told, engine, "bfloat16")
    halves = weights.of(told, replace(engine, tensor_parallel=2), "bfloat16")

    rotary_bytes = 131072 * 128 * 2
    assert (alone.bytes, alone.how) == (stored_bytes(shapes) + rotary_bytes, How.EXACT)
    assert halves.how is How.ESTIMATED
    exact = with_headers(llama_8b, checkpoints.header(shapes))
    assert halves.low <= weights.of(exact, replace(engine, tensor_parallel=2), "bfloat16").bytes
    assert halves.bytes == pytest.approx(alone.bytes / 2, rel=0.01)


def test_a_checkpoint_of_32_bits_is_served_in_16(llama_8b, engine):
    shapes = checkpoints.dense(llama_8b)
    config = llama_8b | {"torch_dtype": "float32"}
    half = weights.of(with_headers(llama_8b, checkpoints.header(shapes)), engine, "bfloat16")

    for told in (
        with_headers(config, checkpoints.header(shapes, "F32")),
        with_index(config, checkpoints.index(shapes, stored_bytes(shapes, 4))),
    ):
        assert weights.of(told, engine, "bfloat16").bytes == pytest.approx(half.bytes, rel=1e-6)


def test_what_the_engine_quantises_while_loading_shrinks_matrices_alone(llama_8b, engine):
    shapes = checkpoints.dense(llama_8b)
    online = replace(engine, quantization="fp8")
    told = weights.of(with_headers(llama_8b, checkpoints.header(shapes)), online, "bfloat16")
    by_arithmetic = weights.of(shape.read(llama_8b), online, "bfloat16")

    assert told.how is How.ESTIMATED
    assert told.bytes == pytest.approx(by_arithmetic.bytes, rel=1e-5)
    of_index = with_index(llama_8b, checkpoints.index(shapes, stored_bytes(shapes)))
    assert weights.of(of_index, online, "bfloat16").bytes == pytest.approx(told.bytes, rel=1e-3)


def test_layers_that_draft_are_loaded_only_where_they_draft(llama_8b, engine):
    config = llama_8b | {"num_nextn_predict_layers": 1}
    shapes = checkpoints.dense(llama_8b)
    drafting = {
        name.replace("layers.0.", "layers.32."): sizes
        for name, sizes in shapes.items()
        if ".layers.0." in name
    }
    drafting["model.layers.32.embed_tokens.weight"] = [128256, 4096]  # shared, not kept twice
    told = with_headers(config, checkpoints.header(shapes | drafting))
    without = with_headers(llama_8b, checkpoints.header(shapes))
    flags = replace(engine, speculative=Speculative("mtp", 1))
    draft = read_draft(told, flags)

    assert weights.of(told, engine, "bfloat16") == weights.of(without, engine, "bfloat16")
    layer_bytes = stored_bytes({name: s for name, s in drafting.items() if "embed" not in name})
    figure = weights.of_draft(told, draft, flags, "bfloat16")
    assert (figure.bytes, figure.how) == (layer_bytes, How.EXACT)


def test_a_tower_is_exact_on_one_gpu_and_bounded_on_several(llama_8b, engine):
    tower = {"vision_tower.encoder.layers.0.mlp.fc1.weight": [4096, 1024]}
    plain = with_headers(llama_8b, checkpoints.header(checkpoints.dense(llama_8b)))
    both = with_headers(llama_8b, checkpoints.header(checkpoints.dense(llama_8b) | tower))
    pair = replace(engine, tensor_parallel=2)

    one = weights.of(both, engine, "bfloat16")
    assert one.bytes - weights.of(plain, engine, "bfloat16").bytes == stored_bytes(tower)
    two = weights.of(both, pair, "bfloat16")
    assert (two.high - two.low, two.how) == (stored_bytes(tower) // 2, How.ESTIMATED)


def test_quantised_files_count_as_they_are_stored_and_may_be_padded(llama_8b, engine):
    shapes = checkpoints.dense(llama_8b)
    config = llama_8b | {"quantization_config": {"quant_method": "odd-new-method"}}
    told = with_headers(config, checkpoints.header(shapes, "F8_E4M3"))
    figure = weights.of(told, engine, "bfloat16")

    rotary_bytes = 131072 * 128 * 2
    assert figure.bytes == stored_bytes(shapes, 1) + rotary_bytes
    assert figure.how is How.ESTIMATED
    assert figure.high > figure.bytes


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.embed_tokens.weight", Place(Part.OUTER, Role.EMBEDDING)),
        ("transformer.wte.weight", Place(Part.OUTER, Role.EMBEDDING)),
        ("lm_head.weight", Place(Part.OUTER, Role.HEAD)),
        ("model.norm.weight", Place(Part.OUTER, Role.WHOLE)),
        ("model.layers.7.self_attn.k_proj.weight", Place(7, Role.KV)),
        ("model.layers.7.self_attn.v_proj.bias", Place(7, Role.KV)),
        ("model.layers.7.self_attn.k_norm.weight", Place(7, Role.WHOLE)),
        ("model.layers.7.self_attn.o_proj.weight_scale_inv", Place(7, Role.DIVIDED)),
        ("model.layers.7.self_attn.o_proj.bias", Place(7, Role.WHOLE)),
        ("model.layers.7.self_attn.qkv_proj.qweight", Place(7, Role.QKV)),
        ("transformer.h.7.attn.c_attn.weight", Place(7, Role.QKV)),
        ("model.layers.7.self_attn.kv_a_proj_with_mqa.weight", Place(7, Role.WHOLE)),
        ("model.layers.7.self_attn.kv_b_proj.weight", Place(7, Role.DIVIDED)),
        ("model.layers.7.self_attn.indexer.wq_b.weight", Place(7, Role.WHOLE)),
        ("model.layers.7.mlp.gate.weight", Place(7, Role.WHOLE)),
        ("model.layers.7.mlp.gate_proj.weight", Place(7, Role.DIVIDED)),
        ("model.layers.7.mlp.experts.3.down_proj.weight", Place(7, Role.EXPERTS)),
        ("model.layers.7.mlp.experts.gate_up_proj_blocks", Place(7, Role.EXPERTS)),
        ("model.layers.7.mlp.shared_experts.up_proj.weight", Place(7, Role.DIVIDED)),
        ("model.layers.7.linear_attn.in_proj_qkvz.weight", Place(7, Role.DIVIDED)),
        ("backbone.layers.7.mixer.in_proj.weight", Place(7, Role.DIVIDED)),
        ("model.visual.blocks.7.attn.qkv.weight", Place(Part.TOWER, Role.DIVIDED)),
        ("multi_modal_projector.linear_1.weight", Place(Part.TOWER, Role.DIVIDED)),
        ("model.language_model.layers.7.mlp.up_proj.weight", Place(7, Role.DIVIDED)),
        ("mtp.layers.0.self_attn.q_proj.weight", Place(Part.DRAFT, Role.DIVIDED)),
        ("mtp.fc.weight", Place(Part.DRAFT, Role.DIVIDED)),
    ],
)
def test_the_name_of_a_tensor_tells_what_becomes_of_it(name, place):
    assert tensor_roles.of(name) == place


ONE = {"a.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "no object"),
        ("{}", "neither a weight_map"),
        ('{"weight_map": 3}', "weight_map must map"),
        ('{"weight_map": {"a": "f"}}', "metadata.total_size must be"),
        ('{"weight_map": {"a": "f"}, "metadata": {"total_size": "9"}}', "metadata.total_size"),
        ('{"weight_map": {"a": "f"}, "metadata": {"total_size": -9}}', "metadata.total_size"),
        ('{"weight_map": {"a": "f"}, "metadata": {"total_size": true}}', "metadata.total_size"),
        ('{"a.weight": 3}', "a.weight must be an object"),
        (json.dumps({"a.weight": ONE["a.weight"] | {"dtype": "Q4"}}), "dtype 'Q4'"),
        (json.dumps({"a.weight": ONE["a.weight"] | {"shape": [-2, 2]}}), "no sensible shape"),
        (json.dumps({"a.weight": ONE["a.weight"] | {"shape": None}}), "no sensible shape"),
        (json.dumps({"a.weight": ONE["a.weight"] | {"data_offsets": [8, 0]}}), "data_offsets"),
        (json.dumps({"a.weight": ONE["a.weight"] | {"data_offsets": [0, 7]}}), "is damaged"),
    ],
)
def test_a_malformed_index_or_header_is_refused_with_what_is_wrong(text, told):
    with pytest.raises(Refused) as refused:
        checkpoint.summary(text, "ConfigMap weights, key index.json")

    assert refused.value.reason == Reason.MODEL_CONFIG_INVALID
    assert refused.value.message.startswith("ConfigMap weights, key index.json: ")
    assert told in refused.value.message
    assert refused.value.field == "spec.model.weights.indexRef"


def test_files_that_lack_layers_of_the_model_are_refused(llama_8b):
    shapes = checkpoints.dense(llama_8b | {"num_hidden_layers": 20})
    for told in (checkpoints.header(shapes), checkpoints.index(shapes, 10**9)):
        with pytest.raises(Refused, match=r"lack 12 of the 32 layers .* layer 20 first"):
            with_index(llama_8b, told)


@pytest.mark.parametrize(
    "told",
    [
        3,
        {},
        {"layers": [], "tensors": [[0, "no role", 1, 1, 1]], "totalBytes": 1},
        {"layers": ["x"], "tensors": [], "totalBytes": 1, "hasDraft": False},
        {"layers": [0], "tensors": [[0, "kv", 1]], "totalBytes": 1},
    ],
)
def test_our_own_key_written_by_others_is_refused_by_its_name(llama_8b, told):
    with pytest.raises(Refused, match=r"tidegate\.io/checkpoint"):
        shape.read(llama_8b | {checkpoint.KEY: told})
