"""The plan of a deployment: slices by class of node, exclusions, and the revision."""

import copy
import dataclasses

import pytest
import yaml

from tidegate.api.llmdeployment import parse_spec
from tidegate.api.reasons import Reason
from tidegate.core import model_config, nodes, plan, revision
from tidegate.core.nodes import NodeClassSetting
from tidegate.errors import Refused
from tidegate.facts import models

SPEC = """
model: {id: Qwen/Qwen3-32B}
engine: {image: "vllm/vllm-openai:v0.32.0", maxModelLen: 32768}
workload: {promptTokens: {p95: 4000}, outputTokens: {p95: 1000}}
pools: {unified: {replicas: 4, tensorParallel: 2}}
"""
PAIR = {
    "prefill": {"replicas": 2, "tensorParallel": 2},
    "decode": {"replicas": 4, "tensorParallel": 2},
}
CARDS = {
    "h100": ("NVIDIA-H100-80GB-HBM3", "81559"),
    "a100": ("NVIDIA-A100-SXM4-80GB", "81920"),
    "t4": ("Tesla-T4", "15360"),
    "l40s": ("NVIDIA-L40S", "46068"),
}

UNCOVERED = {**models.find("Qwen/Qwen3-32B").config, "attn_window_pattern": "LLG"}


def node(name, card, gpus=8):
    product, memory = CARDS[card]
    labels = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": memory,
        "nvidia.com/gpu.count": str(gpus),
    }
    return nodes.read(
        {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
        }
    )


def spec_with(**change):
    document = yaml.safe_load(SPEC)
    for path, value in change.items():
        part = document
        *steps, last = path.split("__")
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = value
    return parse_spec({"spec": document})


def make(spec, there, previous=None):
    config = model_config.of(spec.model, None)
    free = nodes.free_gpus(there, (), None, None)
    return plan.make(spec, config, there, free, previous or {})


def shares(made):
    return {(s.pool, s.node_class.product): s.replicas for s in made.slices}


def test_each_class_is_sized_for_itself_and_replicas_follow_the_gpus():
    made = make(spec_with(), [node("n1", "h100"), node("n2", "h100"), node("n3", "a100")])

    assert shares(made) == {
        ("unified", "NVIDIA-A100-SXM4-80GB"): 1,
        ("unified", "NVIDIA-H100-80GB-HBM3"): 3,
    }
    a100, h100 = made.slices
    assert a100.engine.max_num_batched_tokens == 2048
    assert h100.engine.max_num_batched_tokens == 8192
    assert 2.5 < h100.prefill_tokens_per_second / a100.prefill_tokens_per_second < 4, "by its rate"


def test_a_class_that_is_too_small_is_excluded_and_named_with_its_numbers():
    made = make(spec_with(), [node("n1", "h100"), node("n2", "t4")])
    [exclusion] = made.exclusions

    assert shares(made) == {("unified", "NVIDIA-H100-80GB-HBM3"): 4}
    assert exclusion.reason == Reason.WEIGHTS_DO_NOT_FIT
    assert "GiB" in exclusion.message


def test_classes_of_one_card_are_sized_alike_whether_it_fits_or_not():
    made = make(
        spec_with(),
        [node("n1", "h100"), node("n2", "h100", 4), node("n3", "t4"), node("n4", "t4", 4)],
    )
    one, other = made.slices

    assert (one.node_class.gpus_per_node, other.node_class.gpus_per_node) == (4, 8)
    assert (one.engine, one.sizing) == (other.engine, other.sizing)
    assert [e.node_class for e in made.exclusions] == ["tesla-t4-15g-x4", "tesla-t4-15g-x8"]
    assert len({e.message for e in made.exclusions}) == 1


def test_where_no_class_fits_the_refusal_says_what_would_work():
    with pytest.raises(Refused, match="tensorParallel") as caught:
        make(spec_with(), [node("n1", "t4")])

    assert caught.value.reason == Reason.WEIGHTS_DO_NOT_FIT


def test_a_pod_larger_than_every_node_is_refused():
    with pytest.raises(Refused, match="needs 4 GPUs") as caught:
        make(spec_with(pools__unified__tensorParallel=4), [node("n1", "h100", gpus=2)])

    assert caught.value.reason == Reason.NODE_TOO_SMALL


def test_the_default_of_max_num_seqs_is_what_the_kv_cache_holds_of_the_workload():
    made = make(spec_with(), [node("n1", "h100")])
    [entry] = made.slices

    assert entry.engine.max_num_seqs == entry.sizing.requests_at_p95 < 1024
    asked = make(spec_with(engine__maxNumSeqs=700), [node("n1", "h100")])
    assert asked.slices[0].engine.max_num_seqs == 700


def test_a_pair_shares_the_gpus_and_the_plan_tells_what_the_transfer_costs():
    made = make(spec_with(pools=PAIR), [node("n1", "h100"), node("n2", "h100")])

    assert [entry.pool for entry in made.slices] == ["prefill", "decode"]
    assert "moving the KV of a p95 prompt (4000 tokens)" in made.because[0]


def test_a_slow_network_makes_the_split_not_pay():
    spec = spec_with(pools=PAIR, kvCache={"transfer": {"bandwidth": "1Gi"}})

    assert "may not pay" in make(spec, [node("n1", "h100")]).because[0]


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"pools": {**PAIR, "decode": {"tensorParallel": 4, "pipelineParallel": 2}}},
         Reason.PAIR_INCOMPATIBLE, "pipelineParallel 2"),
        ({"engine__maxModelLen": 100000}, Reason.LENGTH_INVALID, "40960"),
        ({"engine__maxNumSeqs": 512, "engine__maxNumBatchedTokens": 256}, Reason.BATCH_INVALID,
         "maxNumBatchedTokens 256"),
        ({"engine__chunkedPrefill": False, "engine__maxNumBatchedTokens": 8192},
         Reason.BATCH_INVALID, "chunkedPrefill"),
        ({"engine__longPrefillTokenThreshold": 40000}, Reason.LENGTH_INVALID, "40000"),
        ({"workload__promptTokens": {"p95": 32000}}, Reason.LENGTH_INVALID, "33000"),
        ({"kvCache__dtype": "fp3"}, Reason.KV_DTYPE_UNSUPPORTED, "fp8"),
        ({"engine__image": "vllm/vllm-openai:latest"}, Reason.ENGINE_VERSION_UNKNOWN, "0.32.0"),
        ({"engine__image": "vllm/vllm-openai:v0.9.1"}, Reason.ENGINE_VERSION_UNKNOWN, "0.32.0"),
        ({"model__id": "nobody/knows"}, Reason.MODEL_UNKNOWN, "model.configRef"),
        ({"model__config": UNCOVERED}, Reason.MODEL_NOT_SIZED, "attn_window_pattern"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_the_number_and_the_fix(change, reason, message):
    with pytest.raises(Refused) as caught:
        make(spec_with(**change), [node("n1", "h100")])

    assert caught.value.reason == reason
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({"pools__unified__replicas": 7}, False),
        ({"pools__unified__nodeClasses": [{"product": "NVIDIA-H100-80GB-HBM3"}]}, False),
        ({"rollout": {"maxSurge": 3}}, False),
        ({"engine__imagePullPolicy": "Always"}, False),
        ({"engine__image": "vllm/vllm-openai:v0.33.0"}, True),
        ({"kvCache__dtype": "fp8"}, True),
        ({"pools__unified__tensorParallel": 4}, True),
        ({"pools__unified__podTemplate": {"labels": {"team": "chat"}}}, True),
        ({"engine__env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}, True),
        ({"workload__outputTokens": {"p95": 500}}, True),
        ({"workload__sharedPrefixTokens": 500}, True),
        ({"workload__peakRequestsPerSecond": 12}, False),
        ({"slo": {"timeToFirstToken": "1s"}}, False),
        ({"kvCache__offload": {"cpu": "64Gi"}}, True),
        ({"engine__enforceEager": False}, False),  # what is absent means the same
        ({"kvCache__transfer": {}}, False),
    ],
)
def test_only_what_shapes_the_pods_makes_a_new_revision(change, restarts):
    config = {"any": "config"}
    before, after = revision.of(spec_with(), config), revision.of(spec_with(**change), config)

    assert (before != after) is restarts


def test_another_config_of_the_model_makes_a_new_revision():
    spec = spec_with()

    assert revision.of(spec, {"layers": 1}) != revision.of(spec, {"layers": 2})


def test_planning_changes_nothing_that_it_is_given():
    there = [node("n1", "h100"), node("n2", "a100")]
    before = copy.deepcopy(there)
    make(spec_with(), there)

    assert there == before


def test_the_plan_is_the_same_whatever_the_order_of_the_nodes():
    there = [node("n1", "h100"), node("n2", "a100"), node("n3", "l40s")]

    assert make(spec_with(), there) == make(spec_with(), list(reversed(there)))


def test_a_shared_prefix_is_counted_once_where_the_engine_caches_prefixes():
    def at_p95(**change):
        return make(spec_with(**change), [node("n1", "h100")]).slices[0].sizing.requests_at_p95

    shared = {"workload__sharedPrefixTokens": 3000}

    assert at_p95(**shared) > 2 * at_p95()
    assert at_p95(**shared, engine__prefixCaching=False) == at_p95()


def test_a_prefill_wider_than_decode_is_warned_of():
    pools = {"prefill": {"tensorParallel": 4}, "decode": {"tensorParallel": 2}}
    wide = make(spec_with(pools=pools), [node("n1", "h100")])
    even = make(spec_with(pools=PAIR), [node("n1", "h100"), node("n2", "h100")])

    assert "reads from 2 prefill GPUs" in wide.because[-1]
    assert not any("prefill GPUs" in sentence for sentence in even.because)


def mixed(name="m1", whole=4, taints=()):
    """Return what a node offers whose cards are in part cut into MIG devices of two profiles."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/mig.strategy": "mixed",
    }
    allocatable = {"nvidia.com/gpu": str(whole)}
    for profile, memory, count in (("3g.40gb", "40448", "2"), ("1g.10gb", "9984", "7")):
        prefix = f"nvidia.com/mig-{profile}"
        labels |= {
            f"{prefix}.product": f"NVIDIA-H100-80GB-HBM3-MIG-{profile}",
            f"{prefix}.memory": memory,
            f"{prefix}.count": count,
            f"{prefix}.replicas": "1",
            f"{prefix}.sharing-strategy": "none",
        }
        allocatable[prefix] = count
    return nodes.offers(
        {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable},
        }
    )


def test_each_kind_of_mig_device_of_a_node_is_a_class_with_the_size_of_its_own():
    small = spec_with(
        model__id="Qwen/Qwen3-8B",
        engine__maxModelLen=8192,
        pools__unified={"replicas": 6, "tensorParallel": 1},
    )
    made = make(small, mixed())
    whole, device = made.slices
    [too_small] = made.exclusions

    assert (whole.node_class.resource, whole.replicas) == ("nvidia.com/gpu", 4)
    assert (device.node_class.resource, device.replicas) == ("nvidia.com/mig-3g.40gb", 2)
    assert device.sizing.budget.total.bytes == 40448 * 2**20
    assert too_small.node_class == "nvidia-h100-80gb-hbm3-mig-1g-10gb-mixed-10g-x7"
    assert too_small.reason == Reason.WEIGHTS_DO_NOT_FIT


def test_a_pod_of_several_mig_devices_is_refused_with_the_reason():
    wide = spec_with(model__id="Qwen/Qwen3-8B", engine__maxModelLen=8192)
    made = make(wide, mixed())

    assert [entry.node_class.resource for entry in made.slices] == ["nvidia.com/gpu"]
    assert {exclusion.reason for exclusion in made.exclusions} == {Reason.PARALLELISM_INVALID}
    assert all("neither NVLink nor peer access" in e.message for e in made.exclusions)


SHARED_8B = {"model__id": "Qwen/Qwen3-8B", "pools__unified": {"tensorParallel": 1}}


def shared(name, strategy, replicas="4", resource="nvidia.com/gpu"):
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.replicas": replicas,
        "nvidia.com/gpu.sharing-strategy": strategy,
    }
    return nodes.read(
        {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {resource: "32"}},
        }
    )


def test_a_card_shared_by_mps_is_a_class_of_its_own_whose_memory_is_divided():
    by_mps, by_time = shared("n1", "mps", "2"), shared("n2", "time-slicing", "2")
    [entry] = make(spec_with(**SHARED_8B), [by_mps]).slices
    [alone] = make(spec_with(**SHARED_8B), [node("n1", "h100")]).slices

    assert by_mps.node_class.name != by_time.node_class.name
    assert ("nvidia.com/gpu.sharing-strategy", "mps") in by_mps.node_class.requirements
    assert ("nvidia.com/gpu.replicas", "2") in by_mps.node_class.requirements
    assert entry.sizing.budget.total.bytes == alone.sizing.budget.total.bytes // 2
    assert entry.sizing.kv_cache_memory_bytes == entry.sizing.budget.kv_cache.bytes
    assert entry.sizing.gpu_memory_utilization == 0.45, "half of the line, of whatever CUDA shows"
    assert any("each of which is limited to 39.6Gi" in told for told in entry.because)


def test_a_card_shared_by_mps_among_nobody_knows_how_many_is_not_sized():
    with pytest.raises(Refused, match=r"shared by MPS.*nodeClasses") as refused:
        make(spec_with(**SHARED_8B), [shared("n1", "mps", "1")])

    assert refused.value.reason == Reason.GPU_UNKNOWN


def test_a_card_shared_by_time_is_planned_only_within_the_share_of_each_pod():
    there = [shared("n1", "time-slicing", "2")]
    with pytest.raises(
        Refused, match=r"among 2 pods.* is 1\.8 cards.*up to 0\.5 shares"
    ) as refused:
        make(spec_with(**SHARED_8B), there)
    [entry] = make(spec_with(**SHARED_8B, budget={"safetyLine": 0.5}), there).slices

    assert refused.value.field == "spec.budget.safetyLine"
    assert entry.sizing.gpu_memory_utilization == 0.5


def test_shares_under_a_name_of_their_own_are_asked_for_by_it():
    renamed = shared("n1", "time-slicing", "2", "nvidia.com/gpu.shared")
    [entry] = make(spec_with(**SHARED_8B, budget={"safetyLine": 0.5}), [renamed]).slices

    assert entry.node_class.resource == "nvidia.com/gpu.shared"
    assert entry.node_class.gpus_per_node == 16
    assert entry.node_class.name != shared("n1", "time-slicing", "2").node_class.name


def test_what_others_are_declared_to_hold_of_a_card_is_left_to_them():
    def planned(taken_bytes):
        setting = NodeClassSetting({"a": "b"}, "NVIDIA-L40S", taken_bytes=taken_bytes)
        document = {
            "metadata": {"name": "n1", "labels": {"a": "b"}},
            "status": {"allocatable": {"nvidia.com/gpu": "4"}},
        }
        [entry] = make(spec_with(**SHARED_8B), [nodes.read(document, [setting])]).slices
        return entry

    alone, beside = planned(0), planned(8 * 2**30)
    less = alone.sizing.budget.kv_cache.bytes - beside.sizing.budget.kv_cache.bytes

    assert less == pytest.approx(8 * 2**30, rel=0.01)
    assert any("other processes hold 8.0Gi of each GPU" in told for told in beside.because)


def test_a_reduced_copy_of_the_catalogue_is_blamed_and_not_what_the_user_wrote(monkeypatch):
    whole = models.find("Qwen/Qwen2.5-VL-7B-Instruct")
    cut = {key: value for key, value in whole.config.items() if key != "intermediate_size"}
    lacking = ("intermediate_size",)
    known = dataclasses.replace(whole, config=cut, standing="reduced", missing=lacking)
    monkeypatch.setattr(models, "find", lambda model_id: known)
    reduced = spec_with(model__id="Qwen/Qwen2.5-VL-7B-Instruct")
    with pytest.raises(
        Refused, match=r"copy of Qwen/Qwen2\.5-VL-7B-Instruct is reduced"
    ) as refused:
        make(reduced, [node("n1", "h100")])

    assert refused.value.field == "spec.model.config"
    assert "spec.model.weights.bytes" in refused.value.message
