"""What is known without chance (KV against the plan), and what only informs (prefix hits)."""

from collections.abc import Sequence

from tidegate.core.analysis import comparison
from tidegate.core.analysis.evidence import Evidence, Measurement, Metric, Rule, Verdict
from tidegate.core.analysis.timeline import Pair


def measure_kv_drift(rule: Rule, pairs: Sequence[Pair]) -> Measurement:
    """Return whether the canary has the KV that was planned; more than planned is no harm."""
    metric, bound = Metric.KV_DRIFT, rule.bound
    canary = _last([pair.canary for pair in pairs])
    if canary is None:
        return comparison.no_data(
            metric, bound, pairs, lambda side: side.kv_drift_percent is not None
        )
    baseline = _last([pair.baseline for pair in pairs])
    most, margin = bound.absolute, bound.margin
    over = most is not None and canary < -most and (baseline is None or baseline >= -most)
    behind = margin is not None and baseline is not None and baseline - canary > margin
    against = "unknown" if baseline is None else f"{baseline:+.1f} %"
    message = f"KV is {canary:+.1f} % off its plan, the baseline's {against}"
    verdict = Verdict.FAIL if over or behind else Verdict.PASS
    known = None if baseline is None else 1
    return Measurement(metric, verdict, canary, baseline, bound, 1, None, message, known)


def measure_prefix_hits(rule: Rule, pairs: Sequence[Pair]) -> Measurement:
    """Return the share of prompt tokens that prefix caches had. It never stops a canary."""
    canary = _hit_rate([pair.canary for pair in pairs])
    baseline = _hit_rate([pair.baseline for pair in pairs])
    told = ["unknown" if rate is None else f"{rate:.1%}" for rate in (canary, baseline)]
    message = f"prefix caches had {told[0]} of the tokens against {told[1]}; for information"
    return Measurement(
        Metric.PREFIX_HIT_RATE,
        Verdict.PASS,
        canary,
        baseline,
        rule.bound,
        len(pairs),
        None,
        message,
        len(pairs),
    )


def _last(evidences: Sequence[Evidence]) -> float | None:
    known = [of.kv_drift_percent for of in evidences if of.kv_drift_percent is not None]
    return known[-1] if known else None


def _hit_rate(evidences: Sequence[Evidence]) -> float | None:
    hits = queries = 0.0
    for evidence in evidences:
        if evidence.prefix_hit_tokens is not None and evidence.prefix_query_tokens is not None:
            hits += evidence.prefix_hit_tokens
            queries += evidence.prefix_query_tokens
    return hits / queries if queries > 0 else None
