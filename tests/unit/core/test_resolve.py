"""What a spec leaves open, and where it contradicts itself."""

import pytest

from tidegate.api.engine_spec import EngineSpec
from tidegate.api.reasons import Reason
from tidegate.core import resolve
from tidegate.core.budget import shape
from tidegate.errors import Refused
from tidegate.facts import models


def engine(**fields):
    return EngineSpec.model_validate({"image": "vllm/vllm-openai:v0.32.0"} | fields)


def qwen(**without):
    config = dict(models.find("Qwen/Qwen3-8B").config)
    return shape.read({key: value for key, value in config.items() if key not in without})


@pytest.mark.parametrize("version", [None, "0.32.0", "0.32.1"])
def test_an_image_of_the_same_minor_is_no_contradiction(version):
    assert resolve.engine_of(engine(version=version)).version == "0.32.0"


def test_an_image_of_another_minor_than_the_version_is_refused():
    with pytest.raises(Refused, match=r"0\.33\.0.*says 0\.32\.0") as refused:
        resolve.engine_of(engine(version="0.33.0"))

    assert refused.value.reason == Reason.ENGINE_VERSION_UNKNOWN


def test_a_length_that_the_config_never_states_bounds_nothing_and_must_be_given():
    untold = qwen(max_position_embeddings=True)

    assert resolve.max_model_len(engine(maxModelLen=32768), untold) == 32768
    with pytest.raises(Refused, match="set maxModelLen"):
        resolve.max_model_len(engine(), untold)


def test_a_length_that_the_config_states_is_a_bound():
    with pytest.raises(Refused, match="40960 tokens"):
        resolve.max_model_len(engine(maxModelLen=100_000), qwen())
