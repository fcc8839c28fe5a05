"""The comparison finds no difference between equals, and finds each kind of difference."""

import pytest
from e2e.double import compare, probes
from e2e.double.process import Double

from .conftest import FLAGS


@pytest.fixture(scope="module")
def other(model):
    with Double(model, *FLAGS) as running:
        yield running.wait_healthy()


def test_two_doubles_with_the_same_flags_do_not_differ(double, other):
    assert compare.compare(double.url, other.url, "tiny") == []


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (
            ("--block-size", "16"),
            {"pool, num_gpu_blocks", "pool, block_size", "accounting, blocks of one sequence"},
        ),
        (
            ("--no-enable-prefix-caching", "--enable-force-include-usage", "--max-model-len=1024"),
            {
                "accounting, vllm:prefix_cache_hits_total",
                "streamed chat, chunk shapes",
                "pool, kv_cache_max_concurrency",
            },
        ),
        (("--api-key", "x"), {"/v1/models, status"}),
    ],
)
def test_a_double_with_other_flags_is_caught(model, double, flags, what):
    with Double(model, *FLAGS, *flags) as changed:
        changed.wait_healthy()
        found = compare.compare(double.url, changed.url, "tiny")
    assert what <= {difference.what for difference in found}


METRICS = """
# TYPE vllm:a_total counter
vllm:a_total{model_name="tiny",reason="x"} 1.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="9"} 1.0
vllm:h_bucket{le="0.5"} 1.0
"""


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("a_total", "b_total"), "metric vllm:a_total"),
        (('reason="x"', 'reason="y"'), "metric vllm:a_total"),
        (("model_name", "model"), "metric vllm:a_total"),
        (('le="0.5"', 'le="0.7"'), "metric vllm:h_bucket"),
        (('gpu_blocks="9"', 'gpu_blocks="8"'), "pool, num_gpu_blocks"),
    ],
)
def test_a_changed_metric_is_caught(change, what):
    left, right = compare.parse(METRICS), compare.parse(METRICS.replace(*change))
    assert what in {difference.what for difference in compare.compare_metrics(left, right)}
    assert compare.compare_metrics(left, left) == []


BODY = {"id": "x", "choices": [{"text": "a", "finish_reason": "length"}]}


@pytest.mark.parametrize(
    ("left", "right", "what"),
    [
        (BODY, {**BODY, "extra": None}, "shape"),
        (BODY, {**BODY, "id": 3}, "shape"),
        (BODY, {**BODY, "choices": [{"text": "b", "finish_reason": "stop"}]}, "finish reasons"),
        ({"error": {"message": "a"}}, {"error": {"message": "b"}}, "error"),
    ],
)
def test_a_changed_answer_is_caught(left, right, what):
    probe = probes.Probe("p", "/")
    found = compare.compare_answers(probe, compare.Answer(200, left), compare.Answer(200, right))
    assert f"p, {what}" in {difference.what for difference in found}


def test_texts_and_ids_may_differ():
    probe, other = probes.Probe("p", "/"), {**BODY, "id": "y"}
    assert (
        compare.compare_answers(probe, compare.Answer(200, BODY), compare.Answer(200, other)) == []
    )
