"""The catalogue of engine versions, and the resolution of arguments against a real argparse."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.errors import Refused
from tidegate.facts import engines
from tidegate.facts.flags import Ambiguous, Flag, Match, read_human_int

VERSIONS = engines.versions()
OLD, NEW = (engines.engine(version) for version in ("0.32.0", "0.33.0"))
GIB = 2**30


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32.0"),
        ("vllm/vllm-openai:v0.32.0-x86_64", "0.32.0"),
        ("vllm/vllm-openai:0.32.0-cu130", "0.32.0"),
        ("registry.example:5000/vllm/vllm-openai:v0.33.0@sha256:0af3", "0.33.0"),
        ("vllm/vllm-openai:v0.33.0rc1", "0.33.0rc1"),
        ("vllm/vllm-openai:v0.33.1.post1", "0.33.1.post1"),
        ("vllm/vllm-openai:v0.33", "0.33"),
        ("registry.example:5000/vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:0af3", None),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly-0a1b2c3", None),
        ("nvcr.example/nvidia/vllm:25.09-py3", None),
        ("v0.32.0/image", None),
    ],
)
def test_a_tag_tells_the_version_or_nothing(image, version):
    assert engines.version_of_image(image) == version


def test_the_newest_version_comes_last():
    assert VERSIONS[0] == "0.32.0"
    assert VERSIONS[-1] == "0.33.0"


@pytest.mark.parametrize("asked", ["0.33.1", "0.33.0rc1", "0.33", "v0.33.0.post1"])
def test_another_patch_of_a_known_minor_takes_its_facts_and_says_so(asked):
    engine = engines.engine(asked)

    assert engine.version == "0.33.0"
    assert asked in engine.note


def test_a_known_version_needs_no_note():
    assert engines.engine("v0.32.0").note is None


@pytest.mark.parametrize("asked", ["0.31.0", "1.33.0", "newest", ""])
def test_an_unknown_version_is_refused_with_those_that_are_known(asked):
    with pytest.raises(Refused, match=r"0\.32\.0, 0\.33\.0") as refused:
        engines.engine(asked)

    assert refused.value.reason == Reason.ENGINE_VERSION_UNKNOWN
    assert refused.value.field == "spec.engine.version"


@pytest.mark.parametrize(
    ("argument", "name", "value", "is_negated", "path"),
    [
        ("--max-model-len", "--max-model-len", None, False, ()),
        ("--max_model_len=32k", "--max-model-len", "32k", False, ()),
        ("--max-model", "--max-model-len", None, False, ()),
        ("--kv-cache-memory", "--kv-cache-memory-bytes", None, False, ()),
        ("--device-memory-utilization", "--gpu-memory-utilization", None, False, ()),
        ("-tp", "--tensor-parallel-size", None, False, ()),
        ("-tp=2", "--tensor-parallel-size", "2", False, ()),
        ("-n2", "--nnodes", "2", False, ()),
        ("-O3", "--optimization-level", "3", False, ()),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", None, True, ()),
        ("--no-enable-prefix", "--enable-prefix-caching", None, True, ()),
        (
            "--kv-transfer-config.kv_connector",
            "--kv-transfer-config",
            None,
            False,
            ("kv_connector",),
        ),
        (
            "--kv_transfer_config.kv_connector_extra_config.backends+=UCX",
            "--kv-transfer-config",
            "UCX",
            False,
            ("kv_connector_extra_config", "backends+"),
        ),
        ("-cc.mode=3", "--compilation-config", "3", False, ("mode",)),
        ("--served-model-name=a=b", "--served-model-name", "a=b", False, ()),
    ],
)
@pytest.mark.parametrize("engine", [OLD, NEW], ids=VERSIONS)
def test_an_argument_names_its_flag(engine, argument, name, value, is_negated, path):
    assert engine.resolve(argument) == Match(engine.flags[name], value, is_negated, path)


@pytest.mark.parametrize("argument", ["model", "-5", "-0.5", "-", "--", "", "--swap-space", "-z"])
def test_what_is_no_flag_of_the_version_names_none(argument):
    assert NEW.resolve(argument) is None


def test_an_abbreviation_of_several_flags_is_ambiguous():
    found = OLD.resolve("--max-num-queued=3")

    assert isinstance(found, Ambiguous)
    assert found.candidates == ("--max-num-queued-reqs", "--max-num-queued-tokens")


def test_only_the_newer_version_pairs_enable_with_disable():
    newer = NEW.resolve("--disable-prefix-caching")

    assert newer.flag.name == "--enable-prefix-caching"
    assert newer.is_negated
    assert OLD.resolve("--disable-prefix-caching") is None


def test_a_disabling_flag_is_turned_off_by_its_opposite():
    for engine in (OLD, NEW):
        found = engine.resolve("--no-disable-hybrid-kv-cache-manager")
        assert found.flag.name == "--disable-hybrid-kv-cache-manager"
        assert found.is_negated


class Parser(argparse.ArgumentParser):
    """A real argparse with the spellings of a version: the oracle for abbreviations."""

    def __init__(self, engine):
        super().__init__(add_help=False, exit_on_error=False)
        for flag in engine.flags.values():
            self.add_argument(*flag.spellings, dest=flag.name, nargs="?", const="given")

    def error(self, message):
        raise ValueError(message)

    def name_of(self, argument):
        """Return the flag that argparse takes, `several`, or None."""
        try:
            known, rest = self.parse_known_args([argument])
        except ValueError as error:
            return "several" if "ambiguous" in str(error) else str(error)
        given = [name for name, value in vars(known).items() if value is not None]
        return given[0] if given and not rest else None


def resolved(engine, argument):
    found = engine.resolve(argument)
    if isinstance(found, Ambiguous):
        return "several"
    return found.flag.name if found else None


@pytest.mark.parametrize("engine", [OLD, NEW], ids=VERSIONS)
def test_every_beginning_of_every_flag_resolves_as_argparse_does(engine):
    parser = Parser(engine)
    beginnings = {
        spelling[:length] for spelling in engine.spellings for length in range(3, len(spelling) + 1)
    } - {"--"}

    differing = {b for b in beginnings if resolved(engine, b) != parser.name_of(b)}

    assert differing == set()


@given(st.text(max_size=60))
def test_any_argument_is_answered(argument):
    found = NEW.resolve(argument)

    assert found is None or isinstance(found, Match | Ambiguous)


@pytest.mark.parametrize(
    ("written", "spelling"),
    [
        ("auto", "auto"),
        ("bf16", "bfloat16"),
        ("fp16", "float16"),
        ("fp8", "fp8"),
        ("FP8", "fp8"),
        ("int8", "int8_per_token_head"),
        ("int4", "int4_per_token_head"),
        ("k8v4", "turboquant_k8v4"),
        ("fp8_e5m2", "fp8_e5m2"),
    ],
)
def test_a_kv_type_is_written_as_the_engine_wants_it(written, spelling):
    assert OLD.kv_dtype(written) == spelling


@pytest.mark.parametrize("written", ["octave_k3v4", "float32", "int2", ""])
def test_a_kv_type_that_the_version_lacks_is_refused_with_those_it_has(written):
    with pytest.raises(Refused, match="turboquant_k8v4") as refused:
        OLD.kv_dtype(written)

    assert refused.value.reason == Reason.KV_DTYPE_UNSUPPORTED


def test_a_kv_type_of_the_newer_version_is_taken_there():
    assert NEW.kv_dtype("octave_k3v4") == "octave_k3v4"


@pytest.mark.parametrize(
    ("gib", "name", "capability", "batched", "seqs"),
    [
        (178, "NVIDIA-B200", (10, 0), 16384, 1024),
        (79, "NVIDIA-H100-80GB-HBM3", (9, 0), 8192, 1024),
        (79, "NVIDIA-A100-SXM4-80GB", (8, 0), 2048, 256),
        (44, "NVIDIA-L40S", (8, 9), 2048, 256),
        (10, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", (9, 0), 2048, 256),
    ],
)
def test_batch_defaults_follow_the_device(gib, name, capability, batched, seqs):
    for engine in (OLD, NEW):
        found = engine.batch_defaults(gib * GIB, name, capability)
        assert (found.max_num_batched_tokens, found.max_num_seqs) == (batched, seqs)


def test_the_newer_version_keeps_gb10_on_the_small_tier():
    of_version = [e.batch_defaults(121 * GIB, "NVIDIA-GB10", (12, 1)) for e in (OLD, NEW)]

    assert [found.max_num_batched_tokens for found in of_version] == [8192, 2048]


def test_batch_defaults_on_cpus_grow_with_the_workers():
    found = OLD.cpu_batch_defaults(2)

    assert (found.max_num_batched_tokens, found.max_num_seqs) == (4096, 256)


@pytest.mark.parametrize("engine", [OLD, NEW], ids=VERSIONS)
def test_the_facts_that_a_plan_rests_on_are_there(engine):
    assert engine.default_port == 8000
    assert engine.flags["--gpu-memory-utilization"].default == 0.92
    assert engine.flags["--kv-cache-dtype"].default == "auto"
    assert engine.flags["--max-model-len"].kind == "human-int-or-auto"
    assert engine.flags["--kv-cache-memory-bytes"].kind == "human-int"
    assert engine.flags["--kv-offloading-size"].kind == "float"
    assert engine.flags["--kv-transfer-config"].kind == "json"
    assert engine.flags["--served-model-name"].takes_many
    assert engine.kv_dtypes_of_backend("flash_attn") == (
        "auto", "float16", "bfloat16", "fp8", "fp8_e4m3",
    )  # fmt: skip
    assert engine.kv_connectors["NixlConnector"]
    assert not engine.kv_connectors["LMCacheConnectorV1"]
    assert "P2pNcclConnector" not in engine.kv_connectors
    assert engine.metrics["vllm:kv_cache_usage_perc"].kind == "gauge"
    assert engine.renamed_metric("vllm:gpu_cache_usage_perc") == "vllm:kv_cache_usage_perc"
    assert "preemption" in engine.removed_flag("--swap-space")


@pytest.mark.parametrize("engine", [OLD, NEW], ids=VERSIONS)
def test_the_table_of_an_engine_does_not_contradict_itself(engine):
    for flag in engine.flags.values():
        assert flag.name.startswith("--")
        assert flag.kind in (
            "bool",
            "int",
            "human-int",
            "human-int-or-auto",
            "float",
            "str",
            "json",
        )
        assert not flag.negatives or flag.kind == "bool"
        if flag.choices and flag.default is not None and not flag.takes_many:
            assert flag.default in flag.choices
    for name in engine.attention_backends:
        declared = engine.kv_dtypes_of_backend(name) or ()
        assert set(declared) <= set(engine.kv_cache_dtypes)
    total = sum(len(flag.spellings) for flag in engine.flags.values())
    assert len(engine.spellings) == total


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("4k", 4000), ("4K", 4096), ("25.6k", 25600), ("10G", 10 * GIB), ("-1", -1)],
)
def test_a_number_is_read_as_the_engine_reads_it(text, value):
    assert read_human_int(text) == value


@pytest.mark.parametrize("text", ["64Gi", "64GB", "10GiB", "1e9", "1.5M", "", "k"])
def test_a_number_that_the_engine_would_not_take_is_refused(text):
    with pytest.raises(ValueError, match="--kv-cache-memory-bytes"):
        OLD.flags["--kv-cache-memory-bytes"].read(text)


def test_a_fraction_of_a_binary_unit_is_told_how_to_be_written():
    with pytest.raises(ValueError, match=r"1\.5m"):
        OLD.flags["--kv-cache-memory-bytes"].read("1.5M")


def test_values_are_read_by_the_kind_of_their_flag():
    assert OLD.flags["--max-model-len"].read("auto") == -1
    assert OLD.flags["--gpu-memory-utilization"].read("0.9") == 0.9
    assert OLD.flags["--kv-transfer-config"].read('{"kv_role": "kv_both"}') == {
        "kv_role": "kv_both"
    }
    assert OLD.flags["--scheduling-policy"].read("priority") == "priority"
    assert OLD.flags["--max-lora-rank"].read("64") == 64


@pytest.mark.parametrize(
    ("name", "text"),
    [("--scheduling-policy", "sjf"), ("--max-lora-rank", "7"), ("--enable-prefix-caching", "true")],
)
def test_a_value_that_the_engine_would_not_take_is_refused(name, text):
    with pytest.raises(ValueError, match=name):
        OLD.flags[name].read(text)


def test_choices_that_a_plugin_may_extend_are_not_enforced():
    assert NEW.flags["--kv-cache-dtype"].read("from_a_plugin") == "from_a_plugin"
    assert isinstance(NEW.flags["--kv-cache-dtype"], Flag)


def test_a_value_that_only_the_engine_can_judge_is_left_to_it():
    assert OLD.flags["--tool-call-parser"].read("from_a_plugin") == "from_a_plugin"
    assert OLD.flags["--moe-backend"].read("FlashInfer-CUTLASS") == "FlashInfer-CUTLASS"
