"""A case leads to the documented answer; a bad one to one clear error that names its key."""

import json
import math

import pytest
from tests.unit.core.batch.cases import CASE, H100, LLAMA, changed, with_args

from tidegate.core.batch import answer as batch


def answer(case):
    """Return the answer to a case, or to the text of a line."""
    line = case if isinstance(case, str) else json.dumps(case)
    return batch.answer(line, 7).document


def test_bytes_that_are_given_lead_to_the_pool_alone():
    got = answer(CASE)

    assert got["id"] == "one"
    assert got["refused"] is None
    assert got["fits"] is True
    assert got["budget"] is None
    assert got["kv"] == {
        "bytesPerBlock": [2097152],
        "blockSize": 16,
        "numBlocks": 10240,
        "blocksPerRequest": 2048,
        "blocksPerRequestByGroup": [2048],
        "maxConcurrency": 5.0,
        "cacheSizeTokens": 163840,
        "neededBytes": 4294967296,
        "estimatedMaxModelLen": 32768,
        "maxModelLenThatFits": 163824,
        "requests": {"atMaxModelLen": 5, "atP95": None},
    }


def test_without_bytes_the_budget_comes_first_and_adds_up():
    got = answer(changed(availableKvBytes=None))
    budget = got["budget"]
    total = budget.pop("totalBytes")

    assert got["fits"] is True
    assert set(budget) == {
        "weights",
        "activations",
        "cudaGraphs",
        "runtime",
        "draft",
        "reserve",
        "kvCache",
    }
    assert total == sum(line["bytes"] for line in budget.values())
    assert all(line["low"] <= line["bytes"] <= line["high"] for line in budget.values())
    assert budget["kvCache"]["bytes"] == got["kv"]["numBlocks"] * got["kv"]["bytesPerBlock"][0]


def test_a_pool_too_small_for_one_request_is_an_answer_where_its_bytes_were_given():
    got = answer(changed(availableKvBytes=2**30))

    assert got["refused"] is None
    assert got["fits"] is False
    assert got["kv"]["numBlocks"] == 512
    assert got["kv"]["estimatedMaxModelLen"] == 511 * 16
    assert any("max-model-len 8176 fits" in sentence for sentence in got["because"])


def test_a_pool_too_small_is_refused_where_the_budget_says_so():
    case = changed(availableKvBytes=None, gpu={"product": "NVIDIA-L4"})
    case["engine"]["args"] = {"max-model-len": 131072}
    got = answer(case)

    assert got["refused"]["reason"] == "BudgetTooSmall"
    assert "maxModelLen" in got["refused"]["message"]
    assert "kv" not in got


def test_the_workload_is_counted_in_whole_blocks():
    workload = {"promptTokens": {"p95": 4000}, "outputTokens": {"p95": 1000, "mean": 400}}
    got = answer(changed(workload=workload))

    assert got["kv"]["requests"] == {"atMaxModelLen": 5, "atP95": 10240 // math.ceil(5000 / 16)}


def test_a_model_of_the_catalogue_is_known_by_its_id():
    config = answer(CASE)
    known = answer(changed(model={"id": "meta-llama/Llama-3.1-8B"}))

    assert known["kv"] == config["kv"]


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ({"tensor_parallel_size": 2}, {"bytesPerBlock": [2097152 // 2], "numBlocks": 20480}),
        ({"pipeline_parallel_size": 2}, {"bytesPerBlock": [2097152 // 2] * 2}),
        ({"kv_cache_dtype": "fp8"}, {"bytesPerBlock": [2097152 // 2]}),
        ({"block_size": 32}, {"blockSize": 32, "numBlocks": 5120}),
        ({"num_gpu_blocks_override": 5000}, {"numBlocks": 5000}),
        ({"max_model_len": "16k"}, {"blocksPerRequest": 1000}),
        ({"max_model_len": "16K"}, {"blocksPerRequest": 1024}),
        ({"max_model_len": None}, {"blocksPerRequest": 131072 // 16}),
        ({"max_model_len": -1}, {"blocksPerRequest": 131072 // 16}),
        ({"hf_overrides": {"num_hidden_layers": 16}}, {"bytesPerBlock": [2097152 // 2]}),
        ({"port": 8000, "enable_log_requests": True}, {"numBlocks": 10240}),
    ],
)
def test_a_flag_changes_what_it_changes_in_the_engine(flags, changes):
    kv = answer(with_args(**flags))["kv"]

    assert {key: kv[key] for key in changes} == changes


def test_an_automatic_length_is_what_the_memory_holds():
    case = with_args(max_model_len="auto")
    case["availableKvBytes"] = 2**30
    got = answer(case)

    assert got["fits"] is True
    assert got["kv"]["blocksPerRequest"] == 511


@pytest.mark.parametrize(
    ("gpu", "total"),
    [
        ({"product": H100}, 85017755648),  # what CUDA gives on this card
        ({"product": H100, "memoryBytes": 81559 * 2**20}, 85017755648),  # the node's label
        ({"product": H100, "memoryBytes": 85017755649}, 85017755649),  # CUDA's own total
        ({"computeCapability": "9.0", "memoryBytes": 85017755649}, 85017755649),
    ],
)
def test_a_size_of_memory_is_the_label_or_what_cuda_reports(gpu, total):
    got = answer(changed(availableKvBytes=None, gpu=gpu))["budget"]["totalBytes"]

    assert abs(got / total - 1) < 1e-3


def test_a_flag_whose_memory_is_not_counted_is_said_aloud():
    got = answer(with_args(enable_lora=True))

    assert any("--enable-lora" in sentence for sentence in got["because"])


def test_an_older_engine_is_sized_by_the_oldest_known_rules_and_says_so():
    def sized(version):
        return answer(changed(availableKvBytes=None, engine={"version": version}))

    old, known = sized("0.10.2"), sized("0.32.0")

    assert old["kv"]["bytesPerBlock"] == known["kv"]["bytesPerBlock"]
    assert old["budget"]["activations"] != known["budget"]["activations"]  # of its own age
    assert any("vLLM 0.10.2 is not in the catalogue" in sentence for sentence in old["because"])


@pytest.mark.parametrize(
    ("case", "reason", "part"),
    [
        (changed(model={"id": "nobody/nothing"}), "ModelUnknown", "model.config"),
        (changed(model={"config": {}}), "ModelConfigInvalid", "num_"),
        (changed(model={"config": LLAMA | {"num_hidden_layers": -1}}), "ModelConfigInvalid", "num"),
        (changed(model={"config": LLAMA | {"hidden_size": "4k"}}), "ModelConfigInvalid", "hidden"),
        (changed(engine={"version": "0.99.0"}), "EngineVersionUnknown", "0.32.0"),
        (changed(engine={"version": "latest"}), "EngineVersionUnknown", "0.32.0"),
        (changed(gpu={"product": "RTX"}), "GPUUnknown", "memoryBytes"),
        (changed(gpu={"product": "NVIDIA-H20"}), "GPUUnknown", "memoryBytes"),
        (with_args(tensor_paralel_size=2), "FlagUnsupported", "tensor-parallel-size"),
        (with_args(tensor_parallel_size=3), "ParallelismInvalid", "3"),
        (with_args(tensor_parallel_size=0), "ParallelismInvalid", "tensor-parallel-size"),
        (with_args(kv_cache_dtype="fp7"), "KVDtypeUnsupported", "fp8"),
        (with_args(dtype="fp8"), "FlagUnsupported", "bfloat16"),
        (with_args(max_model_len=0), "LengthInvalid", "maxModelLen"),
        (with_args(max_model_len=131073), "LengthInvalid", "131072"),
        (with_args(max_num_seqs=64, max_num_batched_tokens=32), "BatchInvalid", "max-num-seqs"),
        (with_args(gpu_memory_utilization=1.5), "FlagUnsupported", "gpu-memory-utilization"),
        (with_args(attention_backend="NONE"), "AttentionBackendUnsupported", "FLASH_ATTN"),
        (with_args(speculative_config={"method": "eagle"}), "SpeculationInvalid", "num_spec"),
        (with_args(speculative_config={"method": "magic"}), "SpeculationInvalid", "eagle3"),
        (with_args(prefill_context_parallel_size=2), "FlagUnsupported", "cannot be sized"),
        (with_args(runner="pooling"), "FlagUnsupported", "cannot be sized"),
    ],
)
def test_what_the_engine_would_refuse_is_refused_with_its_reason(case, reason, part):
    refused = answer(case)["refused"]

    assert refused["reason"] == reason
    assert part in refused["message"]


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ("", "case: is no JSON"),
        ('{"id": "one"', "case: is no JSON"),
        ("[1]", "case: must be an object, not a list"),
        ("7", "case: must be an object"),
        ('{"id": 1, "id": 2}', "id: is given twice"),
        ("{}", "model: is missing"),
        ("[" * 100_000, "nested too deeply"),
        ('{"availableKvBytes": NaN}', "availableKvBytes: must be a finite number"),
        ('{"availableKvBytes": -Infinity}', "availableKvBytes: must be a finite number"),
        ('{"availableKvBytes": 1e999}', "availableKvBytes: must be a finite number"),
        ('{"availableKvBytes": 1' + "0" * 5000 + "}", "case: is no JSON"),
        (changed(availableKVBytes=1), "availableKVBytes: unknown key; did you mean availableKvByt"),
        (changed(availableKvBytes=-1), "availableKvBytes: must be from 0"),
        (changed(availableKvBytes=10**40), "availableKvBytes: must be from 0"),
        (changed(availableKvBytes=1.5), "availableKvBytes: must be a whole number"),
        (changed(availableKvBytes=True), "availableKvBytes: must be a whole number, not true"),
        (changed(availableKvBytes="20Gi"), "availableKvBytes: must be a whole number"),
        (changed(id=["x"]), "id: must be a string, not a list"),
        (changed(model="llama"), "model: must be an object, not the string"),
        (changed(model={}), "model: needs id"),
        (changed(model={"name": "x"}), "model.name: unknown key"),
        (changed(model={"config": [1]}), "model.config: must be an object"),
        (changed(engine={"args": []}), "engine.args: must be an object"),
        (changed(engine={"flags": {}}), "engine.flags: unknown key"),
        (changed(engine={"version": 32}), "engine.version: must be a string"),
        (changed(gpu=None), "gpu: is missing"),
        (changed(gpu={}), "gpu: needs product"),
        (changed(gpu={"computeCapability": "nine"}), "gpu.computeCapability: must be"),
        (changed(gpu={"computeCapability": True}), "gpu.computeCapability: must be"),
        (changed(gpu={"product": H100, "memoryBytes": 0}), "gpu.memoryBytes: must be from 1"),
        (
            changed(availableKvBytes=None, gpu={"computeCapability": "9.0"}),
            "gpu.memoryBytes: is missing",
        ),
        (changed(workload={}), "workload.promptTokens: is missing"),
        (changed(workload={"promptTokens": {}}), "workload.promptTokens.p95: is missing"),
        (changed(workload={"promptTokens": {"p99": 1}}), "workload.promptTokens.p99: unknown key"),
        (with_args(model="x"), "engine.args.model: give the model as model.id"),
        (
            with_args(tensor_parallel_size="two"),
            "engine.args.tensor-parallel-size: must be a whole",
        ),
        (with_args(tensor_parallel_size=2.0), "engine.args.tensor-parallel-size: must be a whole"),
        (with_args(tensor_parallel_size=10**30), "engine.args.tensor-parallel-size: must be at mo"),
        (with_args(enforce_eager="yes"), "engine.args.enforce-eager: must be true or false"),
        (with_args(no_enforce_eager=True), 'must be written as "enforce-eager": false'),
        (with_args(kv_cache_dtype=8), "engine.args.kv-cache-dtype: must be a string"),
        (with_args(speculative_config=[]), "engine.args.speculative-config: must be an object"),
        (
            with_args(gpu_memory_utilization="all"),
            "engine.args.gpu-memory-utilization: must be a n",
        ),
    ],
)
def test_a_line_that_is_no_case_gets_one_error_with_its_number_and_key(case, part):
    got = answer(case)

    assert set(got) == {"id", "line", "error"}
    assert got["line"] == 7
    assert got["error"].startswith("line 7: ")
    assert part in got["error"]
    assert len(got["error"]) < 1000


def test_a_config_may_hold_an_endless_number_as_published_ones_do():
    config = LLAMA | {"time_step_limit": [0.0, math.inf]}

    assert answer(changed(model={"config": config}))["kv"] == answer(CASE)["kv"]
