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


def test_what_a_reduced_config_lacks_is_named():
    found = models.find("zai-org/GLM-5")

    assert found.standing == "reduced"
    assert "intermediate_size" in found.missing


def test_a_quantised_copy_whose_format_is_not_known_says_so():
    assert "quantization_config" in models.find("nvidia/Qwen3-235B-A22B-NVFP4").missing


def test_a_periodic_layer_pattern_is_written_out():
    layers = models.find("google/gemma-4-26B-A4B").config["layer_types"]
    reduced = models.find("nvidia/Gemma-4-31B-IT-NVFP4").config["layer_types"]

    assert (len(layers), layers.count("full_attention")) == (30, 5)
    assert (len(reduced), reduced.count("full_attention")) == (60, 10)


@pytest.mark.parametrize("model_id", models.known_ids())
def test_every_model_has_a_config_a_source_and_an_honest_standing(model_id):
    found = models.find(model_id)

    assert found.source
    assert found.standing in ("copied", "from memory", "reduced")
    assert (found.standing != "reduced") or found.missing
    config = found.config.get("text_config", found.config)
    assert ("num_hidden_layers" in config) or ("num_hidden_layers" in found.missing)
    assert not set(found.missing) & set(found.config)


def test_no_config_file_is_left_over():
    named = {row["file"] for row in package_data.load("models/index.json").values()}

    assert set(package_data.names("models")) == named | {"index"}
