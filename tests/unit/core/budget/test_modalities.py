"""Images that attend in both directions need other backends, unless no image can come."""

import pytest

from tidegate.core.budget import pool, shape
from tidegate.core.command_line import settings
from tidegate.errors import Refused
from tidegate.facts import engines, gpus, models

AMPERE, BLACKWELL = (8, 0), (10, 0)
GEMMA = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": models.find("google/gemma-3-12b-it").config,
    "vision_config": {"hidden_size": 1152},
}
ALONE = GEMMA["text_config"]


def planned(config, flags, capability, version="0.32.0"):
    read = shape.read(config)
    gpu = gpus.find("NVIDIA-H100-80GB-HBM3", None)
    flags = {"max-model-len": 8192, **flags}
    engine = settings.settle(flags, read, engines.engine(version), gpu).engine
    return pool.kv_pool(read, engine, 2**36, capability)


def page(config, flags, capability):
    of = planned(config, flags, capability)
    return of.block_size, of.bytes_per_block


@pytest.mark.parametrize(
    "flags",
    [
        {"language-model-only": True},
        {"limit-mm-per-prompt": {"image": 0}},
        {"limit-mm-per-prompt": {"image": {"count": 0}}},
        {"limit-mm-per-prompt": {"image": 0, "video": 3}},  # it takes no videos
    ],
)
def test_without_images_a_multimodal_model_is_sized_as_its_text_part(flags):
    assert page(GEMMA, flags, BLACKWELL) == page(ALONE, {}, BLACKWELL) == (16, (1048576,))


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"limit-mm-per-prompt": {"image": 1}},
        {"limit-mm-per-prompt": {"video": 0}},
        {"limit-mm-per-prompt": {"image": {"width": 512}}},
        {"language-model-only": True, "enable-mm-embeds": True},  # embeddings still come
    ],
)
def test_with_images_it_has_the_blocks_of_a_backend_that_allows_them(flags):
    assert page(GEMMA, flags, BLACKWELL) == (64, (4194304,))


def test_without_images_it_may_have_a_type_that_the_other_backend_lacks():
    flags = {"kv-cache-dtype": "fp8"}

    with pytest.raises(Refused, match=r"TRITON_ATTN needs compute capability 8\.9"):
        planned(GEMMA, flags, AMPERE)
    assert planned(GEMMA, flags | {"language-model-only": True}, AMPERE).fits


@pytest.mark.parametrize(
    ("change", "modalities"),
    [
        ({}, ("image",)),
        ({"model_type": "gemma3n", "audio_config": {}}, ("image", "audio")),
        ({"model_type": "qwen2_5_vl"}, ("image", "video")),
        ({"model_type": "gemma4"}, ("image", "video")),
        ({"model_type": "gemma4", "audio_config": {}}, ("image", "video", "audio")),
        ({"model_type": "qwen2_audio", "vision_config": None, "audio_config": {}}, ("audio",)),
        ({"model_type": "other", "vision_config": None}, ("image", "video", "audio")),
    ],
)
def test_every_kind_of_input_that_a_model_takes_must_be_turned_off(change, modalities):
    read = shape.read(GEMMA | change)
    limits = dict.fromkeys(modalities, 0)
    gpu = gpus.find("NVIDIA-H100-80GB-HBM3", None)

    def is_text_only(limited):
        flags = {"max-model-len": 4096, "limit-mm-per-prompt": limited}
        return settings.settle(flags, read, engines.engine("0.32.0"), gpu).engine.language_only

    assert read.modalities == modalities
    assert is_text_only(limits)
    assert not is_text_only(limits | {modalities[-1]: 1})


def test_a_model_of_text_takes_nothing_else():
    assert shape.read(ALONE).modalities == ()


@pytest.mark.parametrize(
    ("change", "both_ways"),
    [
        ({}, True),
        ({"is_mm_prefix_lm": False}, False),
        ({"model_type": "llava"}, False),
        ({"model_type": "llava", "is_mm_prefix_lm": True}, True),
        ({"model_type": "gemma4"}, False),
        ({"model_type": "gemma4", "is_mm_prefix_lm": True}, False),
    ],
)
def test_whether_images_attend_both_ways_is_the_engines_rule(change, both_ways):
    assert shape.read(GEMMA | change).images_both_ways is both_ways


@pytest.mark.parametrize("model_type", ["gemma4", "llava"])
def test_a_key_of_the_text_part_says_so_for_gemma_4(model_type):
    text = ALONE | {"use_bidirectional_attention": "vision"}

    read = shape.read(GEMMA | {"model_type": model_type, "text_config": text})

    assert read.images_both_ways is (model_type == "gemma4")
