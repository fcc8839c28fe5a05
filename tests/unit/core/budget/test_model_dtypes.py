"""A model runs in the dtype that the engine takes for it on a GPU, or is refused one by name."""

from dataclasses import replace

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.budget import model_dtypes, pool, shape
from tidegate.errors import Refused

TURING, AMPERE = (7, 5), (8, 0)
WRAPPED = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]}


def of(config, engine, dtype, capability):
    return model_dtypes.of(shape.read(config), replace(engine, model_dtype=dtype), capability)


@pytest.mark.parametrize(
    ("change", "asked", "capability", "taken"),
    [
        ({}, "auto", AMPERE, "bfloat16"),
        ({}, "auto", TURING, "float16"),
        ({"torch_dtype": "float16"}, "auto", AMPERE, "float16"),
        ({"torch_dtype": "float32"}, "auto", AMPERE, "bfloat16"),
        ({"torch_dtype": "float32"}, "auto", TURING, "float16"),
        ({}, "float16", AMPERE, "float16"),
        ({}, "float32", TURING, "float32"),
        ({"model_type": "gemma2"}, "auto", AMPERE, "bfloat16"),
        ({"model_type": "gemma2"}, "auto", TURING, "float32"),
        ({"model_type": "gemma2", "torch_dtype": "float16"}, "auto", AMPERE, "bfloat16"),
        ({"model_type": "gemma3_text"}, "auto", TURING, "float32"),
        ({"model_type": "glm4"}, "auto", TURING, "float32"),
        ({"model_type": "gemma2"}, "float32", TURING, "float32"),
        ({"model_type": "gemma"}, "float16", AMPERE, "float16"),
        ({"model_type": "gemma3n_text"}, "float16", AMPERE, "float16"),
    ],
)
def test_a_model_runs_in_what_the_engine_takes(llama_8b, engine, change, asked, capability, taken):
    assert of(llama_8b | change, engine, asked, capability) == taken


def test_the_wrapper_says_whether_a_model_holds_float16(llama_8b, engine):
    text = llama_8b | {"model_type": "gemma2"}

    # PaliGemma has Gemma 2 within, and the engine looks at the wrapper alone
    assert of({"model_type": "paligemma", "text_config": text}, engine, "float16", AMPERE)
    with pytest.raises(Refused, match="float16"):
        of(WRAPPED | {"text_config": llama_8b}, engine, "float16", AMPERE)


@pytest.mark.parametrize(
    ("parts", "taken"),
    [
        ({"dtype": "float16"}, "float16"),
        ({"dtype": "float16", "text_config": {"dtype": "bfloat16"}}, "float16"),
        ({"text_config": {"dtype": "float16"}}, "float16"),
        ({"vision_config": {"torch_dtype": "float16"}}, "float16"),
        ({}, "bfloat16"),
    ],
)
def test_the_dtype_of_a_wrapper_goes_before_its_parts(llama_8b, parts, taken):
    del llama_8b["torch_dtype"]
    text = llama_8b | parts.get("text_config", {})

    assert shape.read(parts | {"text_config": text}).dtype == taken


@pytest.mark.parametrize("model_type", ["gemma2", "gemma3", "gemma3_text", "glm4"])
def test_float16_is_refused_where_the_engine_refuses_it(llama_8b, engine, model_type):
    with pytest.raises(Refused, match=r"float16.*use auto or bfloat16 or float32") as refused:
        of(llama_8b | {"model_type": model_type}, engine, "float16", AMPERE)

    assert refused.value.reason == Reason.FLAG_UNSUPPORTED
    assert refused.value.field == "spec.model.weights.dtype"


@pytest.mark.parametrize(("model_type", "instead"), [("llama", "float16"), ("glm4", "float32")])
def test_bfloat16_without_hardware_for_it_is_refused_with_what_works(
    llama_8b, engine, model_type, instead
):
    with pytest.raises(Refused, match=rf"8\.0.*7\.5; use {instead}"):
        of(llama_8b | {"model_type": model_type}, engine, "bfloat16", TURING)


def test_pages_in_float32_are_twice_as_large(llama_8b, engine):
    gemma = shape.read(llama_8b | {"model_type": "gemma2"})

    turing, ampere = (pool.kv_pool(gemma, engine, 2**34, on) for on in (TURING, AMPERE))

    assert turing.bytes_per_block == tuple(2 * size for size in ampere.bytes_per_block)
