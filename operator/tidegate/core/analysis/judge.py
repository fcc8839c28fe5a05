"""All metrics of a canary held against its baseline: one judgement."""

from collections.abc import Sequence
from itertools import chain

from tidegate.core.analysis import (
    comparison,
    counts,
    growth,
    latency,
    rules,
    standing,
    timeline,
)
from tidegate.core.analysis.evidence import (
    Evidence,
    Judgement,
    Look,
    Measurement,
    Metric,
    Rule,
    Rules,
    Verdict,
)
from tidegate.core.analysis.timeline import Pair

_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE)


def judge(
    of: Rules, canary: Sequence[Evidence], baseline: Sequence[Evidence], look: Look
) -> Judgement:
    """Judge a canary by all that is known of it so far. The same input gives the same output.

    Args:
        of: The metrics that are judged, and how.
        canary: The canary's intervals since the end of its warm-up, in the order of time.
        baseline: The baseline's. Intervals that only one side has are left out.
        look: Which look it is.

    Returns:
        Fail once the canary is worse beyond chance in one metric. Over all metrics and all looks
        an equal canary fails with a chance of `look.false_aborts` at most.
    """
    pairs = timeline.align(canary, baseline)
    error_rate = rules.error_rate(of, look)
    measurements = tuple(
        _measure(metric, of[metric], pairs, error_rate) for metric in Metric if metric in of
    )
    for verdict in _WORST_FIRST:
        found = [one for one in measurements if one.verdict is verdict]
        if found:
            return Judgement(verdict, measurements, told(found))
    silence = timeline.silent_seconds(canary)
    if not measurements or silence:
        why = (
            f"no request came to the canary for {silence:.0f} s" if silence else "nothing is judged"
        )
        return Judgement(Verdict.INCONCLUSIVE, measurements, why)
    return Judgement(Verdict.PASS, measurements, _passed(measurements))


def _measure(metric: Metric, rule: Rule, pairs: Sequence[Pair], error_rate: float) -> Measurement:
    fault = _fault(metric, pairs)
    if fault is not None:
        return comparison.not_understood(metric, rule.bound, fault)
    if metric in latency.SUBJECTS:
        return latency.measure(metric, rule, pairs, error_rate)
    match metric:
        case Metric.SURVIVAL:
            return counts.measure_survival(rule, pairs, error_rate)
        case Metric.MEMORY_GROWTH:
            return growth.measure(rule, pairs, error_rate)
        case Metric.KV_DRIFT:
            return standing.measure_kv_drift(rule, pairs)
        case Metric.PREFIX_HIT_RATE:
            return standing.measure_prefix_hits(rule, pairs)
        case _:
            return counts.measure_events(metric, rule, pairs, error_rate)


def _fault(metric: Metric, pairs: Sequence[Pair]) -> str | None:
    """Return what was wrong with a metric's query in the last interval; older ones are over."""
    if not pairs:
        return None
    last = pairs[-1]
    sides = (("canary", last.canary), ("baseline", last.baseline))
    faults = [f"{name}: {side.faults[metric]}" for name, side in sides if metric in side.faults]
    return "; ".join(faults) or None


def told(found: Sequence[Measurement]) -> str:
    """Return what decided in a sentence: the first in full, the others by their names."""
    return "; ".join(chain((_named(one) for one in found[:1]), _others(found[1:])))


def _named(one: Measurement) -> str:
    return f"{one.metric}: {one.message}"


def _others(rest: Sequence[Measurement]) -> list[str]:
    return [f"and {', '.join(one.metric for one in rest)}"] if rest else []


def _passed(measurements: Sequence[Measurement]) -> str:
    return f"{len(measurements)} metrics are within their bounds"
