"""A command line is read as vLLM's own parser reads it.

Every expectation of the two tables was seen from the parser of vLLM 0.32.0.
"""

import contextlib
import json
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api.engine_spec import EnvVar
from tidegate.api.reasons import Reason
from tidegate.core import engine_variables
from tidegate.core.command_line import serve, words
from tidegate.core.render import environment
from tidegate.errors import Invalid, Refused
from tidegate.facts import engines

ENGINE = engines.engine("0.32.0")


def read(line, config=None):
    """Return what a command line sets."""
    return serve.read(words.split(line), ENGINE, config)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("m -tp 2 --kv-cache-dtype fp8", {"tensor-parallel-size": 2, "kv-cache-dtype": "fp8"}),
        ("m --tensor_parallel_size=2", {"tensor-parallel-size": 2}),
        ("m --tensor-parallel 2", {"tensor-parallel-size": 2}),
        ("m -tp 2 -tp 4", {"tensor-parallel-size": 4}),
        ("m -pp=2", {"pipeline-parallel-size": 2}),
        ("-tp 2 m", {"tensor-parallel-size": 2}),
        ("m --max_model_len 32k", {"max-model-len": 32000}),
        ("m --max-num-b 4K", {"max-num-batched-tokens": 4096}),
        ("m --max-model-len auto", {"max-model-len": -1}),
        ("m --max-model-len -1", {"max-model-len": -1}),
        ("m --kv-cache-memory-bytes 1g", {"kv-cache-memory-bytes": 10**9}),
        ("m --no-enable_prefix_caching", {"enable-prefix-caching": False}),
        ("m --async-scheduling --no-async-scheduling", {"async-scheduling": False}),
        ("m -ep -dp=2", {"enable-expert-parallel": True, "data-parallel-size": 2}),
        ("m -O0", {"optimization-level": 0}),
        ("m -O 2", {"optimization-level": 2}),
        ("m --gpu-memory-utilization .9", {"gpu-memory-utilization": 0.9}),
        (
            "m --device-memory-utilization 0.8 --gpu-memory 0.7",
            {"gpu-memory-utilization": 0.7},
        ),
        ("m -q fp8", {"quantization": "fp8"}),
        ("m --hf-overrides '{\"a\": 1}'", {"hf-overrides": {"a": 1}}),
        (
            "m --kv-cache-dtype-skip-layers 0 31 sliding_window",
            {"kv-cache-dtype-skip-layers": ["0", "31", "sliding_window"]},
        ),
        (
            'm --speculative-config \'{"method": "ngram"}\' '
            "--speculative-config.num_speculative_tokens 4",
            {
                "speculative-config": {"num_speculative_tokens": 4}
            },  # the dotted form wins as a whole
        ),
        (
            "m --speculative_config.method eagle3 --speculative-config.num_speculative_tokens=3",
            {"speculative-config": {"method": "eagle3", "num_speculative_tokens": 3}},
        ),
        (
            "m --speculative-config.method eagle3 -sc.num_speculative_tokens=3",
            {"speculative-config": {"num_speculative_tokens": 3}},  # of two spellings the later
        ),
        ("m -cc.sizes+ 1,2 -cc.sizes+ 4", {"compilation-config": {"sizes": ["1", "2", "4"]}}),
        (
            'm -ac.backend FLASH_ATTN -ac \'{"backend": "TRITON_ATTN"}\'',
            {"attention-config": {"backend": "FLASH_ATTN"}},
        ),
        ('m --chat-template "- x y"', {"chat-template": "- x y"}),
    ],
)
def test_a_line_sets_what_the_engine_reads(line, expected):
    command = read(f"vllm serve {line}")

    assert command.model == "m"
    assert dict(command.arguments) == expected


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("m --tensor-paralel-size 2", "did you mean --tensor-parallel-size?"),
        ("m --max 2", "--max-model-len"),
        ("m --enforce-eager=true", "takes no value"),
        ("m --block-size", "--block-size needs a value"),
        ("m --kv-cache-dtype fp9", "'fp9' is none of auto"),
        ("m --max-num-batched-tokens 1.5K", "is no human-int value"),
        ("m -tp2", "no such flag"),
        ("m --max-num-seqs many", "'many' is no int value"),
        ("m extra", "`extra`: it is no flag, and the model is m"),
        ("m --speculative-config x", "--speculative-config: 'x' is no json value"),
        ("m --speculative-config 7", "must be a JSON object"),
        ("m --enforce-eager.x 1", "--enforce-eager has no keys"),
        ("--served-model-name a -tp 2 m", "the model only as the first word"),
        ("m --config=x.yaml", "in two words"),
        ("m --tensor-parallel-size " + "9" * 40, "must be at most"),
        ("m --swap-space 4 --nonsense 1", "`--nonsense`"),
    ],
)
def test_what_the_parser_refuses_is_refused_with_the_word_and_the_fix(line, part):
    with pytest.raises(Refused) as refused:
        read(f"vllm serve {line}")

    assert refused.value.reason == "FlagUnsupported"
    assert part in refused.value.message


def test_the_line_wins_over_its_config_file_and_false_is_dropped_as_the_engine_does():
    config = """
    tensor-parallel-size: 4
    enable-prefix-caching: false
    kv_cache_dtype: fp8
    enforce-eager: true
    served-model-name: [a, b]
    speculative-config: {method: ngram, num_speculative_tokens: 3}
    """
    command = read("vllm serve m --config file.yaml -tp 2", config)

    assert dict(command.arguments) == {
        "config": "file.yaml",
        "tensor-parallel-size": 2,
        "kv-cache-dtype": "fp8",
        "enforce-eager": True,
        "served-model-name": ["a", "b"],
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
    }
    assert command.notes == (
        "the engine ignores `enable-prefix-caching: false` in its config file; write "
        "`no-enable-prefix-caching: true`",
    )


def test_the_model_may_stand_in_the_config_file():
    assert read("vllm serve --config f.yaml", "model: org/m").model == "org/m"
    assert read("vllm serve").model is None


@pytest.mark.parametrize("config", ["- a\n- b", "just text", "a: [", "\x00"])
def test_a_config_file_that_is_no_mapping_is_invalid(config):
    with pytest.raises(Invalid, match="--config"):
        read("vllm serve m --config f.yaml", config)


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m -tp 2",
        "VLLM_USE_V1=1 HF_HOME='/a b' vllm serve m -tp 2",
        "env A=1 vllm serve m -tp 2",
        "CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=8 vllm serve m -tp 2",
        "/opt/venv/bin/vllm serve m \\\n  -tp 2",
        "python3 -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "python -m vllm.entrypoints.cli.main serve m -tp 2",
    ],
)
def test_ways_to_start_the_engine_are_known(line):
    command = read(line)

    assert (command.model, dict(command.arguments)) == ("m", {"tensor-parallel-size": 2})


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("VLLM_PP_LAYER_PARTITION=40,24", "an even division of the layers"),
        ("VLLM_MLA_DISABLE=1", "changes the size of the KV cache"),
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", "lifts a limit"),
        ("VLLM_USE_V2_MODEL_RUNNER=0", "model runner"),
        ("VLLM_BATCH_INVARIANT=1", "attention backends"),
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0", "engine's default"),
        ("VLLM_MODEL_REDIRECT_PATH=/x", "another model"),
        ("VLLM_DP_SIZE=4", "how many engines"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G", "limits the GPU's memory"),
    ],
)
@pytest.mark.parametrize("line", ["{} vllm serve m -tp 2", "env A=1 {} vllm serve m -tp 2"])
def test_a_variable_that_changes_what_is_planned_is_refused_with_the_why(line, variable, why):
    name = variable.partition("=")[0]

    with pytest.raises(Refused, match=rf"{name}: .*{why}.*remove it") as refused:
        read(line.format(variable))

    assert refused.value.reason == Reason.ENV_RESERVED


def test_all_such_variables_are_named_at_once():
    with pytest.raises(Refused, match=r"VLLM_MLA_DISABLE.*VLLM_PP_LAYER_PARTITION"):
        read("VLLM_MLA_DISABLE=1 HF_TOKEN=x VLLM_PP_LAYER_PARTITION=1,2 vllm serve m")


@pytest.mark.parametrize("name", sorted(engine_variables.CHANGE_THE_PLAN))
def test_a_resource_is_refused_such_a_variable_in_the_same_words(name):
    with pytest.raises(Refused) as line:
        read(f"{name}=1 vllm serve m")
    with pytest.raises(Refused) as resource:
        environment.check([EnvVar(name=name, value="1")])

    why = f"{name}: {engine_variables.CHANGE_THE_PLAN[name]}"
    assert why in line.value.message
    assert why in resource.value.message
    assert line.value.reason == resource.value.reason


@pytest.mark.parametrize(
    "line", ["", "vllm", "vllm bench m", "sglang serve m", "vllm serve 'm", "python x.py"]
)
def test_another_command_is_invalid(line):
    with pytest.raises(Invalid, match="--serve"):
        read(line)


def test_the_config_file_is_named_by_the_form_of_two_words():
    assert words.config_file(words.split("vllm serve m --config f.yaml -tp 2")) == "f.yaml"
    assert words.config_file(words.split("vllm serve m --config")) is None
    assert words.config_file(()) is None


_FLAGS = [flag for flag in ENGINE.flags.values() if flag.name not in ("--config", "--model")]
_READABLE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)


def _values(flag):
    if flag.choices:
        return st.sampled_from(flag.choices)
    return {
        "bool": st.just(True),
        "int": st.integers(-(2**40), 2**40),
        "human-int": st.integers(1, 2**40),
        "human-int-or-auto": st.integers(1, 2**40),
        "float": st.floats(0, 1e6),
        "json": st.dictionaries(_READABLE, _READABLE | st.integers(), max_size=3),
    }.get(flag.kind, _READABLE.filter(lambda text: not text.startswith("-")))


@st.composite
def _settings(draw):
    flags = draw(st.lists(st.sampled_from(_FLAGS), unique_by=lambda f: f.name, max_size=6))
    return [(flag, draw(_values(flag))) for flag in flags]


@settings(max_examples=200, deadline=None)
@given(_settings(), st.booleans())
def test_what_is_written_as_a_line_is_read_back(flags, joined):
    line = ["vllm", "serve", "org/model"]
    for flag, value in flags:
        text = json.dumps(value) if flag.kind == "json" else str(value)
        if flag.kind == "bool":
            line.append(flag.name)
        else:
            line += [f"{flag.name}={text}"] if joined else [flag.name, text]
    command = read(shlex.join(line))

    assert command.model == "org/model"
    assert command.arguments == {
        flag.name[2:]: [value] if flag.takes_many else value for flag, value in flags
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(sorted(ENGINE.spellings)) | _READABLE, max_size=6))
def test_any_words_are_read_or_refused(line):
    with contextlib.suppress(Refused):
        assert serve.read(line, ENGINE).arguments is not None
