"""A model takes as many tokens as the engine lets it: by itself, and at most."""

import pytest

from tidegate.core.budget import shape
from tidegate.core.command_line import settings
from tidegate.errors import Refused
from tidegate.facts import engines, gpus

ORIGINAL = {"original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("rope", "length"),
    [
        (None, 131072),
        ({"rope_type": "llama3", "factor": 8.0}, 131072),
        ({"type": "yarn", "factor": 4.0}, 131072),
        ({"rope_type": "telechat3-yarn", "factor": 4.0}, 131072),
        ({"type": "linear", "factor": 2.0}, 262144),
        ({"rope_type": "dynamic", "factor": 1.5}, 196608),
        ({"rope_type": "linear", "factor": None}, 131072),
        ({"rope_type": "default"}, 131072),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 131072),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}}, 262144),
        (
            {
                "full_attention": {"rope_type": "yarn", "factor": 4.0},
                "sliding_attention": {"rope_type": "default"},
            },
            131072,
        ),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_the_longest_sequence_follows_rope_scaling_as_the_engine_applies_it(
    llama_8b, key, rope, length
):
    read = shape.read(llama_8b | {key: rope})

    assert (read.max_model_len, read.longest_model_len) == (length, length)


@pytest.mark.parametrize(
    ("rope", "change"),
    [
        ({"rope_type": "longrope", "factor": 32.0}, {}),
        ({"type": "longrope"}, {}),
        ({"type": "su"}, {}),  # its older name
        ({"rope_type": "longrope", "type": "su"}, {}),
        ({"type": "longrope"}, {"model_type": "phi3"}),
    ],
)
def test_longrope_starts_at_the_original_length_and_may_be_asked_for_all(llama_8b, rope, change):
    read = shape.read(llama_8b | {"rope_scaling": rope} | ORIGINAL | change)

    assert (read.max_model_len, read.longest_model_len) == (4096, 131072)


def test_longrope_without_an_original_length_starts_at_all(llama_8b):
    read = shape.read(llama_8b | {"rope_scaling": {"type": "longrope"}})

    assert (read.max_model_len, read.longest_model_len) == (131072, 131072)


@pytest.mark.parametrize("model_type", ["gemma3_text", "gemma3n_text"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_the_length_of_gemma_3_already_has_its_factor(llama_8b, model_type, is_nested):
    rope = {"rope_type": "linear", "factor": 8.0}
    rope = {"full_attention": rope} if is_nested else rope

    read = shape.read(llama_8b | {"model_type": model_type, "rope_scaling": rope})

    assert (read.max_model_len, read.longest_model_len) == (131072, 131072)


@pytest.mark.parametrize(
    ("told", "length"),
    [
        ({"max_seq_len": 2048}, 2048),  # the smallest of several
        ({"max_seq_len": 262144}, 131072),
        ({"model_max_length": 262144}, 262144),  # before all others, as in Command-R
        ({"model_max_length": 4096}, 4096),
        ({"model_max_length": 262144, "max_seq_len": 2048}, 262144),
    ],
)
def test_of_several_lengths_that_counts_which_the_engine_takes(llama_8b, told, length):
    read = shape.read(llama_8b | told)

    assert (read.max_model_len, read.longest_model_len) == (length, length)


def test_a_config_without_a_length_bounds_nothing(llama_8b):
    del llama_8b["max_position_embeddings"]

    read = shape.read(llama_8b)

    assert (read.max_model_len, read.length_is_known) == (2048, False)


@pytest.mark.parametrize(
    ("asked", "taken"), [(None, 4096), (-1, 4096), (32768, 32768), (131072, 131072)]
)
def test_a_longrope_model_is_sized_at_the_length_that_is_asked_for(llama_8b, asked, taken):
    assert _settled(llama_8b, asked).max_model_len == taken


def test_a_length_above_the_longest_is_refused_with_the_longest(llama_8b):
    with pytest.raises(Refused, match=r"max-model-len 131073 .*131072.*lower it"):
        _settled(llama_8b, 131073)


def _settled(config, asked):
    phi = shape.read(config | {"rope_scaling": {"type": "longrope"}} | ORIGINAL)
    gpu = gpus.find("NVIDIA-H100-80GB-HBM3", None)
    flags = {} if asked is None else {"max-model-len": asked}
    return settings.settle(flags, phi, engines.engine("0.32.0"), gpu).engine
