"""What a config.json says is read by the engine's own rules; what makes no sense is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.budget import shape
from tidegate.core.budget.feed_forward import Dense, Experts
from tidegate.errors import Refused
from tidegate.facts import models


def _attention(config):
    return shape.read(config).layers[0].mixers[0]


@pytest.mark.parametrize(
    "key",
    [
        "n_head_kv",
        "num_kv_heads",
        "num_key_value_heads",
        "multi_query_group_num",
        "num_attention_groups",
    ],
)
def test_kv_heads_are_found_under_every_name_that_the_engine_knows(llama_8b, key):
    del llama_8b["num_key_value_heads"]

    assert _attention(llama_8b | {key: 4}).kv_heads == 4


def test_without_kv_heads_every_attention_head_has_its_own(llama_8b):
    del llama_8b["num_key_value_heads"]

    assert _attention(llama_8b).kv_heads == 32


def test_an_absent_number_of_kv_heads_is_the_librarys_default_for_the_model_type(llama_8b):
    del llama_8b["num_key_value_heads"]

    assert _attention(llama_8b | {"model_type": "mixtral"}).kv_heads == 8


def test_an_explicit_head_dim_goes_before_hidden_size_over_heads(llama_8b):
    assert _attention(llama_8b).head_dim == 128
    assert _attention(llama_8b | {"head_dim": 64}).head_dim == 64


def test_multi_query_models_have_one_kv_head(llama_8b):
    assert _attention(llama_8b | {"model_type": "falcon", "multi_query": True}).kv_heads == 1


def test_a_multimodal_wrapper_is_read_through_its_text_config(llama_8b):
    wrapper = {
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": llama_8b,
        "vision_config": {"hidden_size": 1024},
    }
    read = shape.read(wrapper)

    assert read.layer_count == 32
    assert read.vision == {"hidden_size": 1024}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"layer_types": ["full_attention", "global_attention"] * 16}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 32}, "model_type"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size"),
        ({"mamba_d_state": 128}, "mamba_d_state"),
        ({"num_kv_shared_layers": 15}, "num_kv_shared_layers"),
        ({"v_head_dim": 64, "head_dim": 128}, "v_head_dim"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"architectures": ["BertModel"]}, "architectures"),
        ({"model_type": "minimax_m3"}, "sparse_attention_config"),
        ({"model_type": "rwkv"}, "model_type"),
        ({"model_type": "bamba"}, "model_type"),
        ({"some_new_attention_thing": 7}, "some_new_attention_thing"),
        ({"num_key_value_heads": [8, 8, 4]}, "num_key_value_heads"),
    ],
)
def test_a_structure_that_is_not_covered_is_refused_by_its_key(llama_8b, extra, named):
    with pytest.raises(Refused) as refused:
        shape.read(llama_8b | extra)

    assert refused.value.reason == Reason.MODEL_NOT_SIZED
    assert named in refused.value.message


@pytest.mark.parametrize(
    "harmless",
    [
        {"attention_bias": True},
        {"attention_dropout": 0.1},
        {"kv_lora_rank": None},
        {"num_kv_shared_layers": 0},
        {"layer_types": ["full_attention"] * 32},
        {"some_new_key": "x"},
    ],
)
def test_keys_that_leave_the_cache_as_it_is_do_no_harm(llama_8b, harmless):
    assert shape.read(llama_8b | harmless).layer_count == 32


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"num_hidden_layers": 32.5}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_attention_heads": 10**30}, "num_attention_heads"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"num_key_value_heads": 64}, "num_key_value_heads"),
        ({"hidden_size": None}, "hidden_size"),
        ({"torch_dtype": "int8"}, "torch_dtype"),
        ({"torch_dtype": 16}, "torch_dtype"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types"),
        ({"rope_scaling": [2]}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear", "factor": float("nan")}}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "rope_scaling"),
        ({"use_sliding_window": "no", "sliding_window": 4}, "use_sliding_window"),
        ({"sliding_window": -1}, "sliding_window"),
        ({"num_nextn_predict_layers": 10**6}, "num_nextn_predict_layers"),
        ({"quantization_config": 4}, "quantization_config"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_key(llama_8b, extra, key):
    with pytest.raises(Refused) as refused:
        shape.read(llama_8b | extra)

    assert refused.value.reason == Reason.MODEL_CONFIG_INVALID
    assert refused.value.field == f"spec.model.config.{key}"


def test_experts_dense_layers_and_shared_experts_are_told_apart(llama_8b):
    read = shape.read(
        llama_8b
        | {"n_routed_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1408}
        | {"n_shared_experts": 1, "first_k_dense_replace": 2}
    )

    assert [layer.mlp for layer in read.layers[:3]] == [
        Dense(14336),
        Dense(14336),
        Experts(128, 8, 1408, 1408),
    ]


def test_a_checkpoint_of_32_bits_is_run_in_16(llama_8b):
    assert shape.read(llama_8b | {"torch_dtype": "float32"}).dtype == "bfloat16"
    assert shape.read(llama_8b | {"torch_dtype": "torch.float16"}).dtype == "float16"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "hidden_size",
        "head_dim",
        "dtype",
        "intermediate_size",
        "vocab_size",
        "layer_types",
        "sliding_window",
        "text_config",
        "rope_scaling",
        "num_experts",
        "quantization_config",
        "tie_word_embeddings",
        "architectures",
        "model_type",
        "max_position_embeddings",
        "moe_layer_freq",
        "mlp_only_layers",
        "decoder_sparse_step",
        "vision_config",
        "multi_query",
    ]
)


@given(changes=st.dictionaries(_KEYS, _JSON, max_size=5))
@settings(deadline=None, max_examples=300)
def test_no_config_whatever_leads_to_anything_but_a_shape_or_a_refusal(changes):
    config = {
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 512,
    } | changes
    assert _outcome(config) in ("read", Reason.MODEL_CONFIG_INVALID, Reason.MODEL_NOT_SIZED)


def _outcome(config):
    try:
        shape.read(config)
    except Refused as refused:
        return refused.reason
    return "read"


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", "compress_ratios", ["x"] * 99),
        ("deepseek-ai/DeepSeek-V4-Flash", "compress_ratios", [{}] * 99),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "block_configs", 1),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "block_configs", 0.5),
    ],
)
def test_a_value_of_a_wrong_type_is_named_by_its_key(model, key, value):
    known = models.find(model)
    assert known is not None

    with pytest.raises(Refused, match=key) as caught:
        shape.read({**known.config, key: value})

    assert caught.value.reason == Reason.MODEL_CONFIG_INVALID


def test_a_list_of_plain_attention_is_no_structure_of_its_own(llama_8b):
    assert shape.read(llama_8b | {"attn_type_list": [1] * 32}).layer_count == 32
    with pytest.raises(Refused, match="attn_type_list"):
        shape.read(llama_8b | {"attn_type_list": [1, 0] * 16})
