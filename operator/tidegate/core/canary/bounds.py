"""The rules that a canary is judged by: margins from the spec's bounds, limits from its SLO."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.analysis.evidence import Bound, Evidence, Metric, Rules
from tidegate.core.analysis.rules import DEFAULTS

_PERCENT = 100.0
_IF_KNOWN: Mapping[Metric, Callable[[Evidence], bool]] = {
    Metric.ABANDONMENTS: lambda evidence: evidence.abandoned is not None,
    Metric.KV_DRIFT: lambda evidence: evidence.kv_drift_percent is not None,
    Metric.MEMORY_GROWTH: lambda evidence: evidence.memory_bytes is not None,
}
"""What not every gate or engine tells: without it a canary is judged by the other metrics."""
OWN_METRICS = frozenset({Metric.RESTARTS, Metric.KV_DRIFT})
"""What the operator knows by itself, of the pods and of what engines told it."""


def rules(spec: LLMDeploymentSpec) -> Rules:
    """Return how each metric is judged; the SLO bounds the 95th percentiles."""
    said, slo = spec.rollout.bounds, spec.slo
    to_first = slo.time_to_first_token if slo else None
    per_token = slo.time_per_output_token if slo else None
    bounds = {
        Metric.TTFT_P50: Bound(margin=said.time_to_first_token / _PERCENT),
        Metric.TTFT_P95: Bound(to_first, said.time_to_first_token / _PERCENT),
        Metric.TPOT_P50: Bound(margin=said.time_per_output_token / _PERCENT),
        Metric.TPOT_P95: Bound(per_token, said.time_per_output_token / _PERCENT),
        Metric.SURVIVAL: Bound(margin=said.survival / _PERCENT),
        Metric.REFUSALS: Bound(margin=said.refusals / _PERCENT),
        Metric.ABANDONMENTS: Bound(margin=said.abandonments / _PERCENT),
        Metric.RESTARTS: Bound(margin=said.restarts / _PERCENT),
        Metric.PREEMPTIONS: Bound(margin=said.preemptions / _PERCENT),
        Metric.KV_DRIFT: Bound(absolute=said.kv_drift),
        Metric.MEMORY_GROWTH: Bound(margin=said.memory_growth),
    }
    return {
        metric: replace(
            rule,
            bound=bounds.get(metric, rule.bound),
            min_samples=_samples(metric, rule.min_samples, said.min_samples),
        )
        for metric, rule in DEFAULTS.items()
    }


def judged(
    of: Rules,
    told: Collection[Metric],
    canary: Sequence[Evidence],
    baseline: Sequence[Evidence],
) -> Rules:
    """Return the rules of what can be known here; `told` are the metrics that Prometheus has."""
    unknown = {
        metric
        for metric, is_known in _IF_KNOWN.items()
        if not any(map(is_known, canary)) or not any(map(is_known, baseline))
    }
    judged = {*told, *OWN_METRICS} - unknown
    return {metric: rule for metric, rule in of.items() if metric in judged}


def _samples(metric: Metric, default: int, said: int | None) -> int:
    """Return the samples needed: those of memory are intervals, and none are needed for some."""
    is_counted = default > 0 and metric is not Metric.MEMORY_GROWTH
    return said if said is not None and is_counted else default
