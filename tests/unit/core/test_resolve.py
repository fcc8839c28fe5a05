"""What a spec leaves open, and where it contradicts itself."""

import pytest

from tidegate.api.engine_spec import EngineSpec
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import resolve
from tidegate.core.budget import shape
from tidegate.core.render import extra_args
from tidegate.errors import Refused
from tidegate.facts import gpus, models


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


def deployment(*extra_args, **engine_fields):
    return LLMDeploymentSpec.model_validate(
        {
            "model": {"id": "Qwen/Qwen3-30B-A3B"},
            "engine": {
                "image": "vllm/vllm-openai:v0.32.0",
                "extraArgs": list(extra_args),
                **engine_fields,
            },
            "pools": {"unified": {"tensorParallel": 2}},
        }
    )


def flags_of(*extra_args, **engine_fields):
    spec = deployment(*extra_args, **engine_fields)
    model = shape.read(models.find(spec.model.id).config)
    card = gpus.find("NVIDIA-H100-80GB-HBM3", None)
    return resolve.engine_config(
        spec, spec.pools.unified, model, card, resolve.engine_of(spec.engine)
    )


@pytest.mark.parametrize(
    ("extra_args", "field", "value"),
    [
        (["--enable-expert-parallel"], "expert_parallel", True),
        (["-ep"], "expert_parallel", True),
        (["--no-async-scheduling"], "async_scheduling", False),
        (["--cudagraph-capture-sizes", "1", "2", "16"], "capture_sizes", (1, 2, 16)),
        (["--max-cudagraph-capture-size=64"], "largest_capture_size", 64),
        (["--compilation-config.cudagraph_mode=NONE"], "enforce_eager", True),
        (['--compilation-config={"cudagraph_mode": "PIECEWISE"}'], "graph_mode", "PIECEWISE"),
        (["-O0"], "enforce_eager", True),
        (["--language-model-only"], "language_only", True),
    ],
)
def test_extra_arguments_that_change_memory_reach_the_sizing(extra_args, field, value):
    assert getattr(flags_of(*extra_args), field) == value
    assert getattr(flags_of(), field) != value


def test_extra_arguments_that_are_refused_change_nothing():
    assert flags_of("--enable-expert-parallel", "--no-such-flag") == flags_of()


@pytest.mark.parametrize(
    "argument",
    [
        "--data-parallel-size=2",
        "--decode-context-parallel-size=2",
        "--load-format=dummy",
        "--mamba-block-size=64",
        "--mamba-cache-dtype=float32",
        "--mamba-ssm-cache-dtype=float32",
        "--disable-hybrid-kv-cache-manager",
        "--num-gpu-blocks-override=100",
        "--enforce-eager",
    ],
)
def test_other_arguments_that_change_memory_are_refused(argument):
    asked = deployment(argument).engine
    with pytest.raises(Refused) as refused:
        extra_args.normalised(asked.extra_args, resolve.engine_of(asked))

    assert argument.partition("=")[0] in refused.value.message


@pytest.mark.parametrize("asked", [None, 32768, 131072])
def test_a_longrope_model_takes_its_original_length_unless_more_is_asked_for(asked):
    config = models.find("Qwen/Qwen3-8B").config | {
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope"},
    }

    assert resolve.max_model_len(engine(maxModelLen=asked), shape.read(config)) == (asked or 4096)


def test_asynchronous_scheduling_beside_ngram_is_refused_with_the_fix():
    speculative = {"method": "ngram", "tokens": 3}

    with pytest.raises(Refused, match="speculation by ngram; leave it out") as refused:
        flags_of("--async-scheduling", speculative=speculative)

    assert refused.value.field == "spec.engine.extraArgs"
    assert flags_of(speculative=speculative).async_scheduling is False


@pytest.mark.parametrize(
    ("name", "change", "method"),
    [
        ("org/small", {}, "draft_model"),
        ("org/EAGLE3-small", {}, "eagle3"),  # the engine goes by the name
        ("org/small", {"num_nextn_predict_layers": 1}, "mtp"),
    ],
)
def test_a_draft_model_is_what_the_engine_takes_it_for(name, change, method):
    config = models.find("Qwen/Qwen3-8B").config | change
    speculative = {"method": "draft_model", "model": name, "tokens": 3, "config": config}

    assert flags_of(speculative=speculative).speculative.method == method


@pytest.mark.parametrize(("limits", "is_text_only"), [('{"image": 0}', True), ("{}", False)])
def test_limits_of_zero_leave_a_model_of_images_its_text(limits, is_text_only):
    text = models.find("google/gemma-3-12b-it").config
    model = shape.read({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    spec = deployment("--limit-mm-per-prompt", limits)
    card = gpus.find("NVIDIA-H100-80GB-HBM3", None)

    found = resolve.engine_config(
        spec, spec.pools.unified, model, card, resolve.engine_of(spec.engine)
    )

    assert found.language_only is is_text_only
