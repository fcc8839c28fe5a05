"""What a resource says of a canary's bounds is what the canary is judged by."""

import pytest

from tidegate.api import llmdeployment
from tidegate.api.rollout_spec import AnalysisBounds
from tidegate.core.analysis.evidence import Metric
from tidegate.core.analysis.rules import DEFAULTS
from tidegate.core.canary import bounds, questions

METRIC_OF = {
    "time_to_first_token": Metric.TTFT_P95,
    "time_per_output_token": Metric.TPOT_P95,
    "survival": Metric.SURVIVAL,
    "refusals": Metric.REFUSALS,
    "abandonments": Metric.ABANDONMENTS,
    "restarts": Metric.RESTARTS,
    "preemptions": Metric.PREEMPTIONS,
    "kv_drift": Metric.KV_DRIFT,
    "memory_growth": Metric.MEMORY_GROWTH,
}
SPEC = {
    "model": {"id": "Qwen/Qwen3-0.6B"},
    "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 4096},
    "pools": {"unified": {"replicas": 2}},
}
FIELDS = AnalysisBounds.model_fields.keys() - {"min_samples"}


def spec_of(rollout):
    return llmdeployment.parse_spec({"spec": {**SPEC, "rollout": rollout}})


def test_a_resource_that_says_nothing_has_the_bounds_that_the_documentation_tells():
    rules = bounds.rules(spec_of({}))
    assert {metric: rule.bound for metric, rule in rules.items()} == {
        metric: rule.bound for metric, rule in DEFAULTS.items()
    }


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_each_bound_that_can_be_said_is_of_a_metric_that_is_judged(field):
    metric = METRIC_OF[field]
    before = bounds.rules(spec_of({}))[metric].bound
    wire = AnalysisBounds.model_fields[field].alias
    after = bounds.rules(spec_of({"bounds": {wire: 3.5}}))[metric].bound
    assert after != before
    assert metric in questions.METRICS | bounds.OWN_METRICS
