"""From what an engine told to the next plan: the same blocks, exactly, and never by chance."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.api.figures import How
from tidegate.core import names
from tidegate.core.measure import learn, measurement
from tidegate.core.measure.basis import Basis
from tidegate.core.measure.learn import Reading
from tidegate.core.measure.store import Store
from tidegate.facts.startup_log import StartupLog

IMAGE = "vllm/vllm-openai:v0.32.0"
DIGEST = f"sha256:{'a' * 64}"
NOW = 1_800_000_000.0
SHARED = "NVIDIA-H100-80GB-HBM3-SHARED"


def learnt(entry, reading):
    return learn.entry(entry, reading, IMAGE, DIGEST, "Qwen/Qwen3-32B", NOW)


def basis_of(entry, reading) -> Basis:
    return Basis(store=Store().adding(learnt(entry, reading)))


@given(
    weights=st.floats(30, 32),
    activations=st.floats(0, 12),
    non_torch=st.floats(0, 4),
    graphs=st.floats(0, 2),
)
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_next_plan_has_the_blocks_that_were_seen(
    make_plan, hear, weights, activations, non_torch, graphs
):
    entry = make_plan().slices[0]
    told = {name: round(value, 2) for name, value in [
        ("weights", weights), ("activations", activations),
        ("non_torch", non_torch), ("graphs", graphs),
    ]}  # fmt: skip
    reading = hear(entry, **told)

    after = make_plan(basis_of(entry, reading)).slices[0].sizing

    assert after.pool.num_blocks == reading.cache.blocks
    assert after.kv_cache_memory_bytes == after.budget.kv_cache.bytes
    assert sum(line.bytes for line in after.budget.lines) == after.budget.total.bytes
    assert all(line.bytes >= 0 for line in after.budget.lines)


def test_measured_lines_are_points_and_say_so(make_plan, planned, hear):
    budget = make_plan(basis_of(planned, hear(planned))).slices[0].sizing.budget

    for line in (budget.weights, budget.activations, budget.cuda_graphs, budget.kv_cache):
        assert line.how is How.MEASURED
        assert line.low == line.bytes == line.high
    assert planned.sizing.budget.kv_cache.how is How.ESTIMATED


def test_another_safety_line_is_planned_from_the_same_measurement(make_plan, planned, hear):
    basis = basis_of(planned, hear(planned))
    lower, higher = (
        make_plan(basis, budget={"safetyLine": line}).slices[0].sizing for line in (0.8, 0.9)
    )
    step = max(higher.pool.bytes_per_block)
    freed = round(higher.budget.total.bytes * 0.1)

    assert abs(higher.budget.kv_cache.bytes - lower.budget.kv_cache.bytes - freed) <= 2 * step


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": {"maxNumBatchedTokens": 4096}},
        {"engine": {"maxNumSeqs": 64}},
        {"engine": {"enforceEager": True}},
        {"engine": {"extraArgs": ["--limit-mm-per-prompt={}"]}},
        {"engine": {"env": [{"name": "VLLM_USE_V1", "value": "1"}]}},
        {"engine": {"image": "vllm/vllm-openai:v0.33.0"}},
        {"kvCache": {"dtype": "fp8"}},
        {"model": {"revision": "abc"}},
        {"pools": {"unified": {"replicas": 1, "tensorParallel": 4}}},
    ],
    ids=lambda fields: str(fields)[1:60],
)
def test_what_needs_other_memory_is_another_configuration(make_plan, planned, hear, fields):
    after = make_plan(basis_of(planned, hear(planned)), **fields).slices[0]

    assert after.configuration != planned.configuration
    assert after.basis is None


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": {"maxModelLen": 16384}},
        {"budget": {"safetyLine": 0.8}},
        {"budget": {"kvCache": "10Gi"}},
        {"pools": {"unified": {"replicas": 3, "tensorParallel": 2}}},
        {"model": {"servedNames": ["chat"]}},
    ],
    ids=lambda fields: str(fields)[1:60],
)
def test_what_needs_the_same_memory_is_the_same_configuration(make_plan, planned, hear, fields):
    after = make_plan(basis_of(planned, hear(planned)), **fields).slices[0]

    assert after.configuration == planned.configuration
    assert after.sizing.budget.activations.how is How.MEASURED


def test_only_the_very_same_engine_gets_its_bytes_without_profiling(make_plan, planned, hear):
    basis = basis_of(planned, hear(planned))
    shorter = make_plan(basis, engine={"maxModelLen": 16384}).slices[0].sizing

    assert make_plan(basis).slices[0].sizing.kv_cache_memory_bytes is not None
    assert shorter.kv_cache_memory_bytes is None
    assert shorter.budget.kv_cache.how is How.MEASURED


def test_a_ceiling_of_the_users_stays_what_the_engine_is_given(make_plan, planned, hear):
    basis = basis_of(planned, hear(planned))
    after = make_plan(basis, budget={"kvCache": "10Gi"}).slices[0].sizing

    assert after.kv_cache_memory_bytes == 10 * 2**30


def test_a_log_that_was_cut_replaces_what_it_tells_and_leaves_the_rest(make_plan, planned, hear):
    reading = hear(planned)
    cut = Reading(reading.cache, StartupLog(weights_bytes=reading.log.weights_bytes))

    after = make_plan(basis_of(planned, cut)).slices[0].sizing

    assert after.budget.weights.how is How.MEASURED
    assert after.budget.activations == planned.sizing.budget.activations
    assert after.kv_cache_memory_bytes is None


def test_an_engine_with_other_blocks_tells_no_sum(planned, hear):
    entry = learnt(planned, hear(planned, block_size=64))
    assert entry.measurement.terms.beside_kv_bytes is None


def test_nothing_is_learnt_where_nothing_was_told_or_the_gpu_is_shared(make_plan, hear):
    planned = make_plan().slices[0]
    one = {
        "model": {"id": "Qwen/Qwen3-8B"},
        "pools": {"unified": {"replicas": 1, "tensorParallel": 1}},
    }
    shared = make_plan(product=SHARED, **one).slices[0]

    assert learnt(planned, Reading(hear(planned).cache, StartupLog())) is None
    assert shared.node_class.gpu.is_shared
    assert learnt(shared, hear(shared)) is None


def test_a_slice_that_is_there_keeps_what_it_was_made_with(make_plan, planned, hear):
    basis = basis_of(planned, hear(planned))
    label = names.label_value(planned.node_class.name)

    kept = replace(basis, kept={("unified", make_plan().revision, label): None})
    older = replace(basis, kept={("unified", "01234567", label): None})

    assert make_plan(kept).slices[0].sizing == planned.sizing
    assert make_plan(older).slices[0].sizing == make_plan(basis).slices[0].sizing


def test_numbers_that_contradict_each_other_close_no_sum(make_plan, planned, hear):
    entry = learnt(planned, hear(planned))
    terms = replace(entry.measurement.terms, beside_kv_bytes=1)
    wrong = replace(entry, measurement=replace(entry.measurement, terms=terms))

    after = make_plan(Basis(store=Store().adding(wrong))).slices[0].sizing

    assert after.kv_cache_memory_bytes is None
    assert all(line.bytes >= 0 for line in after.budget.lines)


def test_a_measurement_is_the_same_after_it_was_written_down(planned, hear):
    measured = learnt(planned, hear(planned)).measurement
    assert measurement.decode(measurement.encode(measured)) == measured


@pytest.mark.parametrize(
    "text",
    [
        None, "", "null", "[]", "{", "{}", '{"terms": {}}', "[" * 3000, "x" * 10_000,
        '{"terms": {"weights_bytes": -1}, "maxModelLen": 1, "maxNumSeqs": 1}',
        '{"terms": {"weights_bytes": true}, "maxModelLen": 1, "maxNumSeqs": 1}',
        '{"terms": {"weights_bytes": 1e99}, "maxModelLen": 1, "maxNumSeqs": 1}',
        '{"terms": {"other": 1}, "maxModelLen": 1, "maxNumSeqs": 1}',
        '{"terms": {}, "maxModelLen": 0, "maxNumSeqs": 1}',
    ],
)  # fmt: skip
def test_what_somebody_else_wrote_down_is_no_measurement(text):
    assert measurement.decode(text) is None


@pytest.mark.parametrize("gib", [78.5, 80.0, 95.0])
def test_a_card_that_is_not_what_the_catalogue_says_is_planned_as_it_is(
    make_plan, planned, hear, gib
):
    total = round(gib * 2**30)
    reading = hear(planned, total=total)
    reading = replace(reading, log=replace(reading.log, total_bytes=total))

    after = make_plan(basis_of(planned, reading)).slices[0]

    assert after.sizing.budget.total.bytes == total
    assert after.sizing.pool.num_blocks == reading.cache.blocks
    again = learnt(after, reading)
    assert again.measurement == learnt(planned, reading).measurement
