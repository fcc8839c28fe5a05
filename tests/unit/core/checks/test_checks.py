"""Each violation is told with its reason, its numbers and the nearest change that works."""

import dataclasses

import pytest

from tidegate.api.reasons import Reason
from tidegate.core import checks
from tidegate.core.checks import Severity
from tidegate.core.checks.chain import ON_EACH_POOL, ON_EACH_SLICE
from tidegate.errors import Refused
from tidegate.facts import models

from . import worlds
from .worlds import (
    A100,
    A100_PCIE,
    H100,
    L40S,
    PAIR,
    T4,
    V100,
    node,
    node_with_islands,
    spec,
    verdicts,
)

SLO = {"timeToFirstToken": "1s", "timePerOutputToken": "50ms"}
MIG = f"{H100}-MIG-3g.40gb"
SMALL = {"model__id": "Qwen/Qwen3-8B", "pools__unified__tensorParallel": 1}
ON_A10 = SMALL | {"engine__maxModelLen": 20000, "engine__maxNumSeqs": 64, "workload": None}
FP8_8B = SMALL | {"model__weights": {"quantization": "fp8"}, "engine__maxModelLen": 8192}
OFFLOAD = {"kvCache__offload": {"cpu": "64Gi"}}
LIMIT = {"limits": {"memory": "60Gi"}}
ENOUGH = {"requests": {"memory": "128Gi"}}
UNEVEN = SMALL | {"pools__unified__tensorParallel": 4}
SLOW_NET = {"pools": PAIR, "kvCache__transfer": {"bandwidth": "5Gi"}}
LORA = {"engine__extraArgs": ["--enable-lora", "--max-loras=8", "--max-lora-rank=64"]}
PREFIX = {"workload__sharedPrefixTokens": 3000}
FITS_AS_IT_IS = ["spec.workload.promptTokens.p95", "spec.workload.peakRequestsPerSecond"]
BY_TIME = {"gpu.replicas": "2", "gpu.sharing-strategy": "time-slicing"}

# (what is asked, on which nodes, the reason, parts of the message, the changes)
REFUSED = [
    (SMALL | {"engine__maxModelLen": 40960}, [node("NVIDIA-A10")], Reason.BUDGET_TOO_SMALL,
     ["maxModelLen 40960 needs"],
     ["spec.engine.maxModelLen", "spec.kvCache.dtype", "spec.pools.unified.tensorParallel",
      "spec.model.weights.quantization"]),
    ({"pools__unified__tensorParallel": 1}, [node()], Reason.BUDGET_TOO_SMALL,
     ["32768"], ["spec.engine.maxModelLen", "spec.kvCache.dtype",
                 "spec.pools.unified.tensorParallel", "spec.model.weights.quantization"]),
    ({"pools__unified__tensorParallel": 3}, [node()], Reason.PARALLELISM_INVALID,
     ["does not divide the 64 attention heads"], ["spec.pools.unified.tensorParallel"]),
    ({"pools__unified__tensorParallel": 4}, [node(gpus=2)], Reason.NODE_TOO_SMALL,
     ["needs 4 GPUs"], ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 2, "engine__maxModelLen": 8192}, [node(MIG)],
     Reason.PARALLELISM_INVALID, ["2 MIG devices (3g.40gb)", "sees only one"],
     ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 2, "engine__maxModelLen": 8192},
     [node(f"{H100}-SHARED")], Reason.PARALLELISM_INVALID,
     ["2 shares of", "may get shares of one card"], ["spec.pools.unified.tensorParallel"]),
    (SMALL, [node(f"{H100}-SHARED", **BY_TIME)], Reason.BUDGET_UNCERTAIN,
     ["shared by time among 2 pods", "a safetyLine of 0.9 for each is 1.8 cards"],
     ["spec.budget.safetyLine"]),
    (SMALL | {"engine__maxNumBatchedTokens": 262144, "engine__maxNumSeqs": 64,
              "engine__maxModelLen": 8192}, [node("NVIDIA-A10")], Reason.BUDGET_TOO_SMALL,
     ["activations of maxNumBatchedTokens 262144", "maxNumBatchedTokens 16384 fits"],
     ["spec.engine.maxNumBatchedTokens", "spec.pools.unified.tensorParallel"]),
    ({"pools": {"prefill": {"tensorParallel": 4}, "decode": {"tensorParallel": 2}},
      "kvCache__dtype": "k8v4"}, [node()], Reason.PAIR_INCOMPATIBLE,
     ["turboquant_k8v4 is not laid out by heads", "tensorParallel 4 of prefill to 2"],
     ["spec.pools.prefill.tensorParallel", "spec.pools.decode.tensorParallel"]),
    (FP8_8B, [node(V100)], Reason.QUANTIZATION_UNSUPPORTED, ["capability 7.5", "has 7.0"], None),
    (SMALL | {"model__weights": {"quantization": "awq"}}, [node()],
     Reason.QUANTIZATION_UNSUPPORTED, ["awq needs a checkpoint that is stored so"],
     ["spec.model.weights.quantization"]),
    ({"engine__version": "0.33.0"}, [node()], Reason.ENGINE_VERSION_UNKNOWN,
     ["engine.version is 0.33.0", "says 0.32.0"], []),
    ({"kvCache__dtype": "nvfp4_4over6"}, [node()], Reason.KV_DTYPE_UNSUPPORTED,
     ["compute capability"], ["spec.kvCache.dtype"]),
    ({"kvCache__dtype": "fp8", "engine__attentionBackend": "FLASH_ATTN"}, [node(A100)],
     Reason.ATTENTION_BACKEND_UNSUPPORTED, ["fp8 KV only on"], ["spec.engine.attentionBackend"]),
    ({"kvCache__dtype": "int8", "engine__attentionBackend": "FLASH_ATTN"}, [node()],
     Reason.KV_DTYPE_UNSUPPORTED, ["FLASH_ATTN of vLLM 0.32.0 has no KV type int8_per_token_head"],
     ["spec.kvCache.dtype"]),
    ({"engine__attentionBackend": "XFORMERS"}, [node()], Reason.ATTENTION_BACKEND_UNSUPPORTED,
     ["vLLM 0.32.0 has no attention backend XFORMERS"], ["spec.engine.attentionBackend"]),
    ({"engine__maxModelLen": 100_000}, [node()], Reason.LENGTH_INVALID, ["40960"],
     ["spec.engine.maxModelLen"]),
    ({"engine__maxModelLen": 4096}, [node()], Reason.LENGTH_INVALID, ["5000 tokens"],
     ["spec.engine.maxModelLen"]),
    ({"engine__maxNumSeqs": 512, "engine__maxNumBatchedTokens": 256}, [node()],
     Reason.BATCH_INVALID, ["maxNumBatchedTokens 256"],
     ["spec.engine.maxNumBatchedTokens", "spec.engine.maxNumSeqs"]),
    ({"budget__kvCache": "100Gi"}, [node()], Reason.BUDGET_TOO_SMALL, ["100.00 GiB does not fit"],
     ["spec.budget.kvCache"]),
    ({"kvCache__blockSize": 100}, [node()], Reason.BLOCK_SIZE_UNSUPPORTED, ["100"],
     ["spec.kvCache.blockSize"]),
    ({"pools": {**PAIR, "decode": {"tensorParallel": 2, "pipelineParallel": 2}}}, [node()],
     Reason.PAIR_INCOMPATIBLE, ["pipelineParallel 2"], ["spec.pools.decode.pipelineParallel"]),
    (OFFLOAD | {"pools__unified__resources": LIMIT}, [node()], Reason.OFFLOAD_TOO_LARGE,
     ["64.0Gi for offloaded KV", "limit of 60Gi"], ["spec.kvCache.offload.cpu"]),
    ({"kvCache__offload": {"cpu": "2Ti"}}, [node()], Reason.OFFLOAD_TOO_LARGE,
     ["the largest node", "1000.0Gi"], ["spec.kvCache.offload.cpu"]),
    ({"engine__extraArgs": ["--port=1"]}, [node()], Reason.FLAG_OWNED_BY_FIELD, ["--port=1"], []),
    ({"engine__env": [{"name": "VLLM_HOST_IP", "value": "x"}]}, [node()], Reason.ENV_RESERVED,
     ["VLLM_HOST_IP"], []),
    ({"pools__unified__podTemplate": {"labels": {"tidegate.io/pool": "x"}}}, [node()],
     Reason.LABEL_RESERVED, ["tidegate.io/pool"], []),
]  # fmt: skip
WARNED = [
    ({"workload__peakRequestsPerSecond": 40, "slo": SLO}, [node()], Reason.PEAK_DOES_NOT_FIT,
     ["at 40 requests/s", "1 s + 400 x 50 ms = 21 s", "840 requests of 5,000 tokens",
      "4 pods of unified hold 236"],
     ["spec.pools.unified.replicas", "spec.pools.unified.tensorParallel", *FITS_AS_IT_IS]),
    ({"workload__peakRequestsPerSecond": 20, "slo": SLO}, [node()], Reason.PEAK_DOES_NOT_FIT,
     ["420 requests"], ["spec.kvCache.dtype", "spec.pools.unified.replicas",
                        "spec.pools.unified.tensorParallel", *FITS_AS_IT_IS]),
    ({"workload__peakRequestsPerSecond": 5, "slo": SLO, "engine__maxNumSeqs": 8}, [node()],
     Reason.PEAK_DOES_NOT_FIT, ["105 requests", "hold 32"],
     ["spec.engine.maxNumSeqs", "spec.pools.unified.replicas",
      "spec.workload.peakRequestsPerSecond"]),
    ({"pools__unified__tensorParallel": 8}, [node_with_islands(4)], Reason.GPUS_NOT_LINKED,
     ["tensorParallel 8 spans 2 islands (4 + 4 GPUs)", "for 1,024 prompt tokens"],
     ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 4}, [node_with_islands(3, gpus=6)],
     Reason.GPUS_NOT_LINKED, ["spans 2 islands unevenly (3 + 1 GPUs)"],
     ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 4}, [node_with_islands(6, gpus=12)],
     Reason.GPUS_NOT_LINKED, ["fits 1 times into an island of 6 GPUs"],
     ["spec.pools.unified.tensorParallel"]),
    ({"workload__peakRequestsPerSecond": 40, "slo": SLO}, [node()], Reason.PREFILL_TOO_SLOW,
     ["prompts of 4,000 tokens arrive at 40 a second"], ["spec.pools.unified.replicas"]),
    ({"slo": {"timePerOutputToken": "5ms"}}, [node()], Reason.OBJECTIVE_UNREACHABLE,
     ["reads the weights in at least 9.", "timePerOutputToken is 5 ms"],
     ["spec.pools.unified.tensorParallel"]),
    ({"slo": {"timeToFirstToken": "100ms"}}, [node()], Reason.OBJECTIVE_UNREACHABLE,
     ["computing a p95 prompt of 4,000 tokens", "timeToFirstToken is 100 ms"],
     ["spec.pools.unified.tensorParallel"]),
    ({"engine__maxNumSeqs": 700}, [node()], Reason.PREEMPTION_LIKELY,
     ["maxNumSeqs 700", "5,000 tokens"], ["spec.engine.maxNumSeqs"]),
    (PREFIX | {"engine__prefixCaching": False}, [node()], Reason.PREFIX_NOT_SHARED,
     ["3,000 tokens", "prefixCaching is off"], ["spec.engine.prefixCaching"]),
    ({"workload__sharedPrefixTokens": 15}, [node()], Reason.PREFIX_NOT_SHARED,
     ["no block of 16 tokens"], []),
    (UNEVEN, [node(gpus=6)], Reason.GPUS_LEFT_IDLE, ["a node of 6 GPUs holds 1 pods of 4", "2 of"],
     ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 4}, [node(L40S)], Reason.GPUS_NOT_LINKED,
     ["has no NVLink", "over PCIe 4.0 x16"], ["spec.pools.unified.tensorParallel"]),
    (SMALL | {"pools__unified__tensorParallel": 4}, [node(A100_PCIE)], Reason.GPUS_NOT_LINKED,
     ["NVLink between 2 GPUs"], ["spec.pools.unified.tensorParallel"]),
    (FP8_8B, [node(A100)], Reason.TYPE_NOT_NATIVE, ["fp8 weights", "widened to 16 bits"], []),
    ({"kvCache__dtype": "fp8"}, [node(A100)], Reason.TYPE_NOT_NATIVE, ["8.9", "measure"], []),
    (SLOW_NET, [node(), node(name="n2")], Reason.SPLIT_DOES_NOT_PAY,
     ["takes 195 ms at 5.0Gi/s", "a network of"], ["spec.kvCache.dtype"]),
    (LORA, [node()], Reason.EXTRA_ARGS_TAKE_MEMORY, ["--enable-lora takes", "Gi of each GPU"],
     ["spec.budget.kvCache"]),
    ({"engine__extraArgs": ["--performance-mode=throughput"]}, [node()],
     Reason.EXTRA_ARGS_TAKE_MEMORY, ["--performance-mode changes batch limits"], []),
    (SMALL, [node(f"{H100}-SHARED")], Reason.BUDGET_UNCERTAIN,
     ["shared by time", "is not counted"], []),
    ({"pools__unified__replicas": 1000}, [node()], Reason.UNSCHEDULABLE,
     ["1,000 pods of 2 GPUs want 2,000", "have 8, which hold 4 pods"], []),
    (OFFLOAD, [node()], Reason.HOST_MEMORY_NOT_REQUESTED, ["67.0Gi", "requests none"],
     ["spec.pools.unified.resources.requests.memory"]),
    ({"kvCache__offload": {"cpu": "300Gi"}, "pools__unified__resources": ENOUGH}, [node()],
     Reason.OFFLOAD_TOO_LARGE, ["holds 4 pods", "1000.0Gi"], ["spec.kvCache.offload.cpu"]),
    ({"engine__maxModelLen": 24576, "pools__unified__tensorParallel": 1}, [node()],
     Reason.BUDGET_UNCERTAIN, ["if every estimate is too low"],
     ["spec.pools.unified.tensorParallel"]),
    (ON_A10, [node("NVIDIA-A10")], Reason.BUDGET_UNCERTAIN,
     ["if every estimate is too low"],
     ["spec.engine.maxModelLen", "spec.kvCache.dtype", "spec.pools.unified.tensorParallel"]),
    ({}, [node(), node(T4)], Reason.WEIGHTS_DO_NOT_FIT, ["not used", "Tesla-T4"], []),
]  # fmt: skip
INFORMED = [
    ({"workload__peakRequestsPerSecond": 5, "slo": SLO}, Reason.PEAK_FITS, "105 requests"),
    ({"workload__peakRequestsPerSecond": 5}, Reason.PACE_UNKNOWN, "spec.slo.timeToFirstToken"),
    ({}, Reason.PREEMPTION_PRICED, "269 ms to 700 ms for a p95 context of 5,000 tokens"),
    (PREFIX, Reason.PREFIX_SHARED, "75% of a p95 prompt"),
    (OFFLOAD, Reason.OFFLOAD_PRICED, "comes back in"),
    ({"pools": PAIR}, Reason.SPLIT_PRICED, "takes 39.1 ms at 25.0Gi/s"),
]


def of_reason(found, reason, severity):
    return [v for v in found if (v.reason, v.severity) == (reason, severity)]


def named(cases):
    return pytest.mark.parametrize(
        ("asked", "there", "reason", "parts", "fields"),
        cases,
        ids=[f"{case[2]}-{number}" for number, case in enumerate(cases)],
    )


@named(REFUSED)
def test_what_cannot_work_is_refused_with_what_would(asked, there, reason, parts, fields):
    [verdict] = of_reason(verdicts(spec(**asked), *there), reason, Severity.REFUSE)

    for part in parts:
        assert part in verdict.message
    if fields is not None:
        assert [change.field for change in verdict.changes] == fields


@named(WARNED)
def test_what_may_disappoint_is_a_warning_and_no_refusal(asked, there, reason, parts, fields):
    found = verdicts(spec(**asked), *there)
    verdict = next(
        v
        for v in of_reason(found, reason, Severity.WARN)
        if all(part in v.message for part in parts)
    )

    assert not [v for v in found if v.severity is Severity.REFUSE]
    assert [change.field for change in verdict.changes] == fields


@pytest.mark.parametrize(("asked", "reason", "part"), INFORMED)
def test_what_a_plan_costs_is_told_without_alarm(asked, reason, part):
    [verdict] = of_reason(verdicts(spec(**asked)), reason, Severity.INFORM)

    assert part in verdict.message


def test_a_good_deployment_has_nothing_to_warn_of():
    found = verdicts(spec(workload__peakRequestsPerSecond=5, slo=SLO))

    assert {v.severity for v in found} == {Severity.INFORM}


def test_a_change_says_what_it_brings():
    [verdict] = of_reason(
        verdicts(spec(workload__peakRequestsPerSecond=20, slo=SLO)),
        Reason.PEAK_DOES_NOT_FIT,
        Severity.WARN,
    )

    assert "kvCache.dtype fp8 gives 476 requests instead of 236" in verdict.text


def test_the_changes_of_a_peak_are_the_nearest_that_hold_it():
    asked = {"workload__peakRequestsPerSecond": 20, "slo": SLO}
    [verdict] = of_reason(verdicts(spec(**asked)), Reason.PEAK_DOES_NOT_FIT, Severity.WARN)
    change = {change.field: change for change in verdict.changes}
    prompt, rate = (change[field].value for field in FITS_AS_IT_IS)

    def holds(**other):
        found = verdicts(spec(**asked | other))
        return not of_reason(found, Reason.PEAK_DOES_NOT_FIT, Severity.WARN)

    assert holds(workload__promptTokens={"p95": prompt})
    assert not holds(workload__promptTokens={"p95": prompt + 16})
    assert rate == 11.2, "236 requests that stay for 21 s"
    assert holds(workload__peakRequestsPerSecond=rate)


@pytest.mark.parametrize(
    ("there", "size"),
    [
        (node_with_islands(4), 4),
        (node_with_islands(4), 2),
        (node_with_islands(8), 8),
        (node_with_islands(4, gpus=6), 2),
        (node(), 8),
    ],
    ids=["an island", "half of one", "all is one", "a smaller one left", "not told"],
)
def test_a_group_within_an_island_is_not_warned_of_and_nor_is_what_no_label_tells(there, size):
    found = verdicts(spec(pools__unified={"replicas": 1, "tensorParallel": size}), there)

    assert not of_reason(found, Reason.GPUS_NOT_LINKED, Severity.WARN)


def test_shares_of_a_card_within_the_safety_line_are_not_warned_of():
    there = node(f"{H100}-SHARED", **BY_TIME)
    found = verdicts(spec(**SMALL, budget__safetyLine=0.5, engine__maxModelLen=8192), there)

    assert not [v for v in found if v.reason == Reason.BUDGET_UNCERTAIN]


def test_a_change_that_a_refusal_tells_already_is_not_told_twice():
    [verdict] = of_reason(
        verdicts(spec(pools__unified__tensorParallel=1)), Reason.BUDGET_TOO_SMALL, Severity.REFUSE
    )

    assert "maxModelLen 26400 fits" in verdict.message
    assert verdict.text.count("26") == verdict.message.count("26")
    assert "kvCache.dtype fp8 fits" in verdict.text


def test_several_faults_are_told_together_each_with_its_own_change():
    found = verdicts(
        spec(
            kvCache__dtype="fp3",
            pools__unified__tensorParallel=3,
            engine__extraArgs=["--port=1"],
            engine__env=[{"name": "LD_PRELOAD", "value": "x"}],
        )
    )

    assert [v.reason for v in found] == [
        Reason.KV_DTYPE_UNSUPPORTED,
        Reason.FLAG_OWNED_BY_FIELD,
        Reason.ENV_RESERVED,
        Reason.PARALLELISM_INVALID,
    ]
    assert str(found[0].changes[0]) == "kvCache.dtype fp8 mends this one"
    assert str(found[3].changes[0]) == "pools.unified.tensorParallel 4 mends this one"


def test_a_model_that_cannot_be_sized_is_told_once():
    broken = {**models.find("Qwen/Qwen3-32B").config, "num_hidden_layers": -1}
    _, told = checks.check_spec(spec(), broken, [node()])

    assert [v.reason for v in told] == [Reason.MODEL_CONFIG_INVALID]


def test_the_gravest_comes_first():
    found = verdicts(spec(**OFFLOAD, pools__unified__resources=LIMIT, engine__maxNumSeqs=700))
    order = [list(Severity).index(verdict.severity) for verdict in found]

    assert order == sorted(order)
    assert order[0] == 0


HYBRID = {"model__id": "Qwen/Qwen3-Next-80B-A3B-Instruct", "pools__unified__tensorParallel": 4}


def test_offload_of_recurrent_layers_needs_prefix_caching():
    def told(**change):
        return of_reason(
            verdicts(spec(**HYBRID, **OFFLOAD, **change)),
            Reason.OFFLOAD_UNSUPPORTED,
            Severity.REFUSE,
        )

    [verdict] = told(engine__prefixCaching=False)
    assert str(verdict.changes[0]) == "engine.prefixCaching true works"
    assert told() == []


def test_a_window_shares_less_of_a_prefix_than_full_attention():
    def gain(model):
        asked = {"model__id": model, "pools__unified__tensorParallel": 2}
        alone, _ = worlds.checked(spec(**asked))
        shared, _ = worlds.checked(spec(**asked, **PREFIX))
        (one,), (other,) = alone.slices, shared.slices
        return other.sizing.requests_at_p95 / one.sizing.requests_at_p95

    assert gain("google/gemma-3-27b-it") < 1.2 < 2 < gain("Qwen/Qwen3-32B")


def test_a_class_that_cannot_run_the_pool_is_left_out_where_another_can():
    plan, found = worlds.checked(spec(**FP8_8B), node(H100), node(V100))

    assert [entry.node_class.product for entry in plan.slices] == [H100]
    assert Reason.QUANTIZATION_UNSUPPORTED in {
        v.reason for v in found if v.severity is Severity.WARN
    }


def test_offload_is_not_bounded_by_memory_that_no_node_tells():
    found = verdicts(spec(kvCache__offload={"cpu": "2Ti"}), node(memory=None))

    assert not of_reason(found, Reason.OFFLOAD_TOO_LARGE, Severity.REFUSE)
    assert "is not told" in " ".join(v.message for v in found)


def test_what_speculation_takes_is_the_difference_to_the_plan_without_it():
    config = {
        **models.find("Qwen/Qwen3-8B").config,
        "num_hidden_layers": 1,
        "draft_vocab_size": 32000,
    }
    draft = {"method": "eagle3", "model": "org/draft", "tokens": 3, "config": config}
    asked = SMALL | {"engine__maxModelLen": 8192}
    [verdict] = of_reason(
        verdicts(spec(**asked, engine__speculative=draft)),
        Reason.SPECULATION_PRICED,
        Severity.INFORM,
    )
    alone, _ = worlds.checked(spec(**asked))

    assert f"instead of {alone.slices[0].sizing.pool.cache_size_tokens:,}" in verdict.message


def test_refusals_become_one_with_the_reason_of_the_first():
    found = verdicts(spec(**OFFLOAD, pools__unified__resources=LIMIT))
    refusal = checks.refusal_of(found)

    assert isinstance(refusal, Refused)
    assert refusal.reason == Reason.OFFLOAD_TOO_LARGE
    assert "kvCache.offload.cpu 56Gi fits" in str(refusal)
    assert checks.refusal_of(verdicts(spec())) is None


def test_every_check_says_its_violation_in_a_sentence():
    for check in (*ON_EACH_SLICE, *ON_EACH_POOL):
        assert check.__doc__, check.__name__
        assert len(check.__name__.split("_")) > 1


def test_very_many_classes_do_not_make_the_search_endless():
    there = [node(gpus=n, name=f"n{n}") for n in range(1, 9)]
    crowd = [dataclasses.replace(one, name=f"{one.name}-{i}") for one in there for i in range(50)]
    found = verdicts(spec(engine__maxNumSeqs=700, pools__unified__tensorParallel=2), *crowd)

    assert of_reason(found, Reason.PREEMPTION_LIKELY, Severity.WARN)


def test_extra_arguments_that_the_plan_counts_are_no_reason_to_warn():
    for argument in ("--no-async-scheduling", "-ep", "--max-cudagraph-capture-size=64"):
        found = verdicts(spec(engine__extraArgs=[argument]))
        assert not of_reason(found, Reason.EXTRA_ARGS_TAKE_MEMORY, Severity.WARN)
