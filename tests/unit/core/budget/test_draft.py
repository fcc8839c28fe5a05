"""A draft is priced only where the engine could run it beside its target."""

import re
from dataclasses import replace

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.budget import draft, pool, shape, weights
from tidegate.core.budget.engine_config import Speculative
from tidegate.errors import Refused

ONE = {"num_hidden_layers": 1}


def read(target, engine, method, change):
    flags = replace(engine, speculative=Speculative(method, 3, target | change))
    return draft.read(shape.read(target), flags)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("draft_model", {"num_hidden_layers": 16, "hidden_size": 2048}),
        ("eagle", ONE),
        ("eagle3", ONE | {"draft_vocab_size": 32000}),
        ("eagle3", ONE | {"hidden_size": 2048, "target_hidden_size": 4096}),
        ("eagle3", {"num_hidden_layers": 6, "architectures": ["LlamaForCausalLMEagle3"]}),
    ],
)
def test_a_draft_that_goes_with_its_target_is_read(llama_8b, engine, method, change):
    assert read(llama_8b, engine, method, change).layers


@pytest.mark.parametrize(
    ("method", "change", "part"),
    [
        ("draft_model", {"vocab_size": 32000}, "vocabulary of 32000 and the model one of 128256"),
        ("eagle", ONE | {"hidden_size": 2048}, "hidden states of 2048 and the model's have 4096"),
        ("eagle3", ONE | {"hidden_size": 5120}, "hidden states of 5120"),
        ("eagle3", {}, "32 layers is no EAGLE draft"),
    ],
)
def test_a_draft_that_cannot_work_is_refused(llama_8b, engine, method, change, part):
    with pytest.raises(Refused, match=part) as refused:
        read(llama_8b, engine, method, change)

    assert refused.value.reason == Reason.SPECULATION_INVALID


QWEN_OF_14_HEADS = {
    "num_hidden_layers": 24,
    "hidden_size": 896,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
}


@pytest.mark.parametrize(
    ("method", "change", "size", "part"),
    [
        ("draft_model", QWEN_OF_14_HEADS, 8, "does not divide the 14 attention heads of the draft"),
        (
            "eagle",
            ONE | {"num_attention_heads": 20, "num_key_value_heads": 4},
            8,
            "the 20 attention heads of the draft",
        ),
        ("eagle", ONE | {"intermediate_size": 14332}, 8, "feed-forward size of 14332 of the draft"),
        (
            "eagle3",
            ONE | {"num_attention_heads": 40, "num_key_value_heads": 10},
            4,
            "neither divides the 10 KV heads",
        ),
    ],
)
def test_a_draft_is_divided_as_its_model_is(llama_8b, engine, method, change, size, part):
    draft_config = llama_8b | {"head_dim": 128} | change
    flags = replace(engine, speculative=Speculative(method, 3, draft_config))

    with pytest.raises(Refused, match=part) as refused:
        pool.kv_pool(shape.read(llama_8b), replace(flags, tensor_parallel=size), 2**34, (9, 0))

    assert refused.value.reason == Reason.PARALLELISM_INVALID
    assert re.search(r"; 1, 2(, 4)? work for both, or use another draft", refused.value.message)


@pytest.mark.parametrize("size", [1, 2])
def test_a_size_that_divides_both_is_sized(llama_8b, engine, size):
    draft_config = llama_8b | QWEN_OF_14_HEADS
    flags = replace(engine, speculative=Speculative("draft_model", 3, draft_config))

    target = shape.read(llama_8b)
    assert pool.kv_pool(target, replace(flags, tensor_parallel=size), 2**36, (9, 0)).fits


@pytest.mark.parametrize("method", ["eagle", "draft_model"])
def test_a_draft_runs_in_the_models_dtype_or_is_refused(llama_8b, engine, method):
    own = llama_8b | ONE | {"model_type": "gemma2"}
    flags = replace(engine, model_dtype="float16", speculative=Speculative(method, 3, own))

    with pytest.raises(Refused, match=r"float16.*gemma2"):
        pool.kv_pool(shape.read(llama_8b), flags, 2**34, (9, 0))


@pytest.mark.parametrize(
    ("layers", "tokens"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 4), (3, 2), (3, 6)]
)
def test_layers_for_multi_token_prediction_run_once_or_a_whole_number_of_times(
    llama_8b, engine, layers, tokens
):
    target = shape.read(llama_8b | {"num_nextn_predict_layers": layers})

    assert draft.read(target, replace(engine, speculative=Speculative("mtp", tokens)))


@pytest.mark.parametrize(
    ("layers", "tokens", "part"), [(2, 3, "; 2 or 4 work"), (3, 4, "; 3 or 6 work")]
)
def test_more_tokens_than_layers_must_be_a_multiple(llama_8b, engine, layers, tokens, part):
    target = shape.read(llama_8b | {"num_nextn_predict_layers": layers})

    with pytest.raises(Refused, match=part) as refused:
        draft.read(target, replace(engine, speculative=Speculative("mtp", tokens)))

    assert refused.value.reason == Reason.SPECULATION_INVALID
    assert refused.value.field == "spec.engine.speculative.tokens"


def test_multi_token_prediction_by_other_layers_than_the_models_is_not_sized(llama_8b, engine):
    one, two = (llama_8b | {"num_nextn_predict_layers": layers} for layers in (1, 2))

    with pytest.raises(Refused, match="leave its model out"):
        draft.read(shape.read(one), replace(engine, speculative=Speculative("mtp", 1, two)))
    assert draft.read(shape.read(one), replace(engine, speculative=Speculative("mtp", 1, one)))


@pytest.mark.parametrize(
    ("flag", "own", "is_smaller"),
    [
        ("fp8", None, False),  # the engine quantises the model and not the draft
        (None, "fp8", True),
        ("fp8", "fp8", True),
    ],
)
def test_a_draft_is_quantised_by_its_own_key(llama_8b, engine, flag, own, is_smaller):
    target, draft_config = shape.read(llama_8b), llama_8b | {"num_hidden_layers": 16}

    def weighed(of_model, of_draft):
        asked = Speculative("draft_model", 3, draft_config, quantization=of_draft)
        flags = replace(engine, quantization=of_model, speculative=asked)
        return weights.of_draft(target, draft.read(target, flags), flags, "bfloat16").bytes

    assert (weighed(flag, own) < weighed(None, None)) is is_smaller


def test_a_quantisation_that_the_draft_is_not_stored_in_is_refused(llama_8b, engine):
    asked = Speculative("draft_model", 3, llama_8b, quantization="awq")

    with pytest.raises(Refused, match="quantization awq needs a checkpoint"):
        draft.read(shape.read(llama_8b), replace(engine, speculative=asked))
