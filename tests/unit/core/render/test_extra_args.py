"""`engine.extraArgs`: whatever the spelling, a flag is what the engine would take it for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api.reasons import Reason
from tidegate.core.render import extra_args, ownership
from tidegate.errors import Refused
from tidegate.facts import engines

ENGINE = engines.engine("0.32.0")


@pytest.mark.parametrize(
    ("given_args", "written"),
    [
        ([], []),
        (["--seed", "3"], ["--seed=3"]),
        (["--seed=3"], ["--seed=3"]),
        (["--seed", "-1"], ["--seed=-1"]),
        (["--tool_call_parser", "hermes"], ["--tool-call-parser=hermes"]),
        (["--tool-call", "hermes"], ["--tool-call-parser=hermes"]),
        (["--chat-template", "a b"], ["--chat-template=a b"]),
        (["--chat-template=-x"], ["--chat-template=-x"]),
        (["--enable_auto"], ["--enable-auto-tool-choice"]),
        (["--no-enable_log_requests"], ["--no-enable-log-requests"]),
        (["-ep"], ["--enable-expert-parallel"]),
        (["-O3"], ["--optimization-level=3"]),
        (
            ["--lora-modules", "a=b", "c=d", "--seed=1"],
            ["--lora-modules", "a=b", "c=d", "--seed=1"],
        ),
        (["--max-num-queued-tokens", "4k"], ["--max-num-queued-tokens=4k"]),
        (["--compilation-config", '{"mode": 3}'], ['--compilation-config={"mode": 3}']),
        (
            ["-cc.mode", "3", "--compilation_config.a.b=c"],
            ["--compilation-config.mode=3", "--compilation-config.a.b=c"],
        ),
        (
            ["-cc.sizes+", "1,2", "-cc.sizes+=4"],
            ["--compilation-config.sizes+=1,2", "--compilation-config.sizes+=4"],
        ),
    ],
)
def test_an_argument_is_written_in_full(given_args, written):
    assert extra_args.normalised(given_args, ENGINE) == written


@pytest.mark.parametrize(
    ("given_args", "field"),
    [
        (["--max-model-len", "4096"], "spec.engine.maxModelLen"),
        (["--max_model_len=4096"], "spec.engine.maxModelLen"),
        (["--max-model=4096"], "spec.engine.maxModelLen"),
        (["--model=other"], "spec.model.id"),
        (["--served_model_name", "a", "b"], "spec.model.servedNames"),
        (["-tp", "2"], "tensorParallel"),
        (["-tp=2"], "tensorParallel"),
        (["-t", "2"], "tensorParallel"),
        (["-q", "awq"], "spec.model.weights.quantization"),
        (["-qawq"], "spec.model.weights.quantization"),
        (["--device-memory-utilization", "0.99"], "spec.budget.safetyLine"),
        (["--kv-cache-memory", "1G"], "spec.budget.kvCache"),
        (["--num-gpu-blocks-override=9"], "spec.budget.kvCache"),
        (["--kv_transfer-config", "{}"], "spec.kvCache.transfer"),
        (["--kv-transfer-config.kv_role", "kv_both"], "spec.kvCache.transfer"),
        (["--no-enable-prefix-caching"], "spec.engine.prefixCaching"),
        (["--no-enable-chunked"], "spec.engine.chunkedPrefill"),
        (["--kv-offloading-size", "64"], "spec.kvCache.offload.cpu"),
        (["--spec-tokens", "3"], "spec.engine.speculative"),
        (["-sc.method=ngram"], "spec.engine.speculative"),
        (["--hf-token", "x"], "tokenSecretRef"),
    ],
)
def test_a_flag_that_a_field_owns_is_refused_with_the_field(given_args, field):
    refused = _refusal(given_args)

    assert refused.reason == Reason.FLAG_OWNED_BY_FIELD
    assert refused.field == "spec.engine.extraArgs"
    assert field in refused.message


@pytest.mark.parametrize(
    "given_args",
    [
        ["--host", "0.0.0.0"],
        ["--port=80"],
        ["--api-key", "k"],
        ["--config=/tmp/x.yaml"],
        ["--ssl-keyfile", "k"],
        ["--enable-sleep-mode"],
        ["--kv-offloading-backend", "lmcache"],
        ["--shutdown-timeout=0"],
        ["--data-parallel-size", "2"],
        ["-dp", "2"],
        ["-n2"],
        ["--headless"],
        ["--grpc"],
        ["--uds=/tmp/s"],
        ["--hf-overrides", '{"num_hidden_layers": 1}'],
        ["--disable-log-stats"],
        ["--cpu-offload-gb", "10"],
        ["--help"],
        ["--worker-cls", "mine.Worker"],
        ["--worker-extension-cls=mine.Extension"],
        ["--scheduler-cls", "mine.Scheduler"],
        ["--logits-processors", "mine:Processor"],
        ["--middleware=mine.Middleware"],
        ["--tool-parser-plugin", "/models/x.py"],
        ["--reasoning_parser_plugin=/models/x.py"],
        ["--io-processor-plugin", "mine"],
        ["--log-config-file", "/models/x.json"],
        ["--profiler-config.profiler", "torch"],
        ["--tool-server", "demo"],
    ],
)
def test_what_would_undo_tidegates_own_settings_is_refused_with_the_why(given_args):
    refused = _refusal(given_args)

    assert refused.reason == Reason.FLAG_OWNED_BY_FIELD
    assert refused.message.endswith("; remove it")


@pytest.mark.parametrize(
    "given_args",
    [
        ["--seed=1", "--seed", "2"],
        ["--enable-log-requests", "--no-enable-log-requests"],
        ["-O3", "--optimization-level=2"],
        ["--compilation-config.mode=1", "-cc.mode=2"],
        ["--compilation-config.a=1", "--compilation-config.a.b=2"],
        ["--compilation-config={}", "--compilation-config.mode=1"],
    ],
)
def test_a_flag_given_twice_is_refused(given_args):
    assert _refusal(given_args).reason == Reason.FLAG_REPEATED


@pytest.mark.parametrize(
    ("given_args", "told"),
    [
        (["--enable-auto-tool-choise"], "did you mean --enable-auto-tool-choice?"),
        (["--swap-space", "4"], "--kv-offloading-size"),
        (["--frobnicate", "1"], "has no such flag"),
        (["--se", "1"], "--seed, --served-model-name"),
        (["model"], "it is no flag"),
        (["--seed", "1", "2"], "it is no flag"),
        (["--", "--seed=1"], "positional"),
        (["--seed", "one"], "'one' is no int"),
        (["--seed"], "--seed needs a value"),
        (["--seed", "--enable-lora"], "--seed needs a value"),
        (["--enable-lora=true"], "write it alone, or --no-enable-lora"),
        (["--aggregate-engine-logging=1"], "write it alone or leave it out"),
        (["--scheduling-policy", "sjf"], "fcfs, priority"),
        (["--max-num-queued-tokens", "4Gi"], "'4Gi' is no human-int"),
        (["--seed.x", "1"], "--seed has no keys"),
        (["--compilation-config.", "1"], "a key needs a name"),
        (["--compilation-config.mode"], "a key needs a name and a value"),
        (["--compilation-config", "{"], "no json"),
    ],
)
def test_what_the_engine_would_exit_on_is_refused_before_a_pod_starts(given_args, told):
    refused = _refusal(given_args)

    assert refused.reason == Reason.FLAG_UNSUPPORTED
    assert told in refused.message


def test_all_faults_are_told_at_once_under_the_first_ones_reason():
    refused = _refusal(["--seed=1", "--seed=2", "--port", "80", "--frobnicate", "x", "-tp", "2"])

    assert refused.reason == Reason.FLAG_REPEATED
    told = refused.message.split("; extraArgs")
    assert [part[part.index("[") + 1] for part in told] == ["1", "2", "4", "6"]


def test_the_value_of_a_wrong_flag_is_no_fault_of_its_own():
    assert _refusal(["--max-model-len", "4096"]).message.count("extraArgs[") == 1
    assert _refusal(["--frobnicate", "a", "b"]).message.count("extraArgs[") == 1


_SPELLINGS = st.sampled_from(sorted(ENGINE.spellings))


@st.composite
def _smuggled(draw):
    """A flag, spelled in one of the ways that the engine's parser takes."""
    spelling = draw(_SPELLINGS)
    if spelling.startswith("--"):
        written = spelling[: draw(st.integers(4, len(spelling)))]
        underscored = draw(st.booleans())
        written = "--" + written[2:].replace("-", "_") if underscored else written
    else:
        written = spelling
    return written + draw(st.sampled_from(["", "=1", "={}", ".a=1"]))


@settings(deadline=None)
@given(st.lists(st.one_of(_smuggled(), st.text(max_size=8)), max_size=4))
def test_no_spelling_smuggles_an_owned_flag(given_args):
    try:
        written = extra_args.normalised(given_args, ENGINE)
    except Refused:
        return

    flags = [entry for entry in written if entry.startswith("-")]
    for entry in flags:
        match = ENGINE.resolve(entry)
        assert match is not None
        assert ownership.objection(match.flag.name) is None
    assert extra_args.normalised(written, ENGINE) == written, "what is in full stays as it is"


@pytest.mark.parametrize("flag", sorted({*ownership.FIELDS, *ownership.RESERVED}))
def test_every_flag_that_is_kept_from_users_exists_in_the_newest_engine(flag):
    assert flag in engines.engine(engines.versions()[-1]).flags


@pytest.mark.parametrize(
    "given_args",
    [
        ["--load-format", "dummy"],
        ["--load-format=dummy"],
        ["--structured-outputs-config", '{"reasoning_parser_plugin": "x.py"}'],
        ["--structured-outputs-config.reasoning_parser_plugin", "x.py"],
        ["--structured-outputs-config.reasoning-parser-plugin=x.py"],
        ["--ec-transfer-config", '{"a": [{"ec_connector_module_path": "mine"}]}'],
        ["--compilation-config", '{"inductor_passes": {"p": "mine.run"}}'],
        ["--compilation-config.inductor_passes.p", "mine.run"],
    ],
)
def test_a_flag_that_is_the_users_may_not_load_code_by_its_value(given_args):
    assert _refusal(given_args).reason == Reason.FLAG_OWNED_BY_FIELD


@pytest.mark.parametrize(
    "given_args",
    [
        ["--load-format", "runai_streamer"],
        ["--structured-outputs-config", '{"backend": "xgrammar"}'],
        ["--compilation-config.mode", "3"],
        ["--distributed-executor-backend", "mp"],
    ],
)
def test_other_values_of_such_a_flag_are_passed_on(given_args):
    assert extra_args.normalised(given_args, ENGINE)


def _refusal(given_args):
    with pytest.raises(Refused) as caught:
        extra_args.normalised(given_args, ENGINE)
    return caught.value
