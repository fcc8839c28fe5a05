"""The catalogue of models says what it knows of each, and where from."""

import pytest

from tidegate.facts import models, package_data


def test_a_model_is_found_by_its_id():
    found = models.find("Qwen/Qwen3-8B")

    assert found.config["num_hidden_layers"] == 36
    assert found.config["num_key_value_heads"] == 8
    assert found.standing == "copied"
    assert found.missing == ()


def test_an_unknown_id_is_not_guessed():
    assert models.find("org/nope") is None


def test_ids_of_one_shape_share_a_config():
    base, tuned = (models.find(f"meta-llama/Llama-3.1-8B{end}") for end in ("", "-Instruct"))

    assert base.config == tuned.config


def test_a_quantised_copy_differs_by_its_quantisation_only():
    plain, quantised = (models.find(f"Qwen/Qwen3-32B{end}") for end in ("", "-FP8"))

    assert quantised.config["quantization_config"]["quant_method"] == "fp8"
    assert "quantization_config" not in plain.config
    assert {**plain.config, "quantization_config": None} == {
        **quantised.config,
        "quantization_config": None,
    }
    assert "from memory" in quantised.source


@pytest.mark.parametrize(
    ("model_id", "method", "algorithm"),
    [
        ("nvidia/Qwen3-235B-A22B-NVFP4", "modelopt", "NVFP4"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "modelopt", "FP8"),
        ("zai-org/GLM-5-FP8", "fp8", None),
        ("moonshotai/Kimi-K2-Thinking", "compressed-tensors", None),
    ],
)
def test_a_quantised_copy_tells_how_it_is_stored(model_id, method, algorithm):
    stored = models.find(model_id).config["quantization_config"]

    assert stored["quant_method"] == method
    assert stored.get("quant_algo") == algorithm


def test_recurrent_layers_of_qwen_keep_their_state_in_the_type_that_each_copy_tells():
    for model_id in models.known_ids():
        if "Qwen3.5" in model_id or "Qwen3.6" in model_id:
            text = models.find(model_id).config["text_config"]
            assert text["mamba_ssm_dtype"] == "float32", model_id


def test_a_periodic_layer_pattern_is_written_out():
    layers = models.find("google/gemma-4-26B-A4B").config["layer_types"]
    quantised = models.find("nvidia/Gemma-4-31B-IT-NVFP4").config["text_config"]["layer_types"]

    assert (len(layers), layers.count("full_attention")) == (30, 5)
    assert (len(quantised), quantised.count("full_attention")) == (60, 10)


@pytest.mark.parametrize("model_id", models.known_ids())
def test_every_model_has_a_config_a_source_and_an_honest_standing(model_id):
    found = models.find(model_id)

    assert found.source
    assert found.standing in ("copied", "from memory", "reduced")
    assert (found.standing != "reduced") or found.missing
    config = found.config.get("text_config", found.config)
    layers = {"num_hidden_layers", "hybrid_override_pattern", "layers_block_type"}
    assert layers.intersection(config) or "num_hidden_layers" in found.missing
    assert not set(found.missing) & set(found.config)


def test_no_config_file_is_left_over():
    named = {row["file"] for row in package_data.load("models/index.json").values()}

    assert set(package_data.names("models")) == named | {"index"}
