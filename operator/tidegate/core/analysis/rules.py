"""What is judged when nothing is said, and how the error rate is divided.

Between an equal canary and one that is worse by the margin there is room: a canary fails if it is
worse beyond chance and nearer to the margin than to its baseline, so the decision lies at half of
the margin. Who wants a fifth to be caught writes a fifth.
"""

from collections.abc import Mapping

from tidegate.core.analysis.evidence import Bound, Look, Metric, Rule, Rules

DEFAULTS: Rules = {
    Metric.TTFT_P50: Rule(Bound(margin=0.2), min_samples=100),
    Metric.TTFT_P95: Rule(Bound(margin=0.2), min_samples=200),
    Metric.TPOT_P50: Rule(Bound(margin=0.1), min_samples=100),
    Metric.TPOT_P95: Rule(Bound(margin=0.1), min_samples=200),
    Metric.SURVIVAL: Rule(Bound(margin=0.02), min_samples=50),
    Metric.REFUSALS: Rule(Bound(margin=0.5), min_samples=50),
    Metric.ABANDONMENTS: Rule(Bound(margin=0.5), min_samples=50),
    Metric.RESTARTS: Rule(Bound(margin=1.0), min_samples=50),
    Metric.PREEMPTIONS: Rule(Bound(margin=0.8), min_samples=100),
    Metric.PREFIX_HIT_RATE: Rule(Bound(), min_samples=0),
    Metric.KV_DRIFT: Rule(Bound(absolute=10.0), min_samples=0),
    Metric.MEMORY_GROWTH: Rule(Bound(margin=6.0), min_samples=30),
}
"""Samples are requests; for memory they are intervals. At 95 % ten of 200 are above the mark."""

LEAST_MARGINS: Mapping[Metric, float] = {
    Metric.REFUSALS: 20.0,
    Metric.ABANDONMENTS: 20.0,
    Metric.RESTARTS: 3.0,
    Metric.PREEMPTIONS: 10.0,
}
"""Per 1,000 requests: a smaller worsening of counts is no matter, however many times it is."""

UNTESTED = frozenset({Metric.PREFIX_HIT_RATE, Metric.KV_DRIFT})
"""Metrics without chance in their verdict: they take nothing of the error rate."""

_FIRST_STRETCH = 0.9
_WHOLE = 0.9


def error_rate(rules: Rules, look: Look) -> float:
    """Return the chance that an equal canary may fail one metric, at any look of this stretch.

    The rate of a rollout is divided evenly over its metrics (Bonferroni). A stretch of evidence
    that began anew gets a tenth of what the one before had. Of a stretch's rate nine tenths are for
    all of its evidence, and of what is left the k-th later step's own gets 1 / k(k + 1). So the sum
    over all keeps the rate, however many stretches and steps there are.
    """
    tested = max(1, sum(metric not in UNTESTED for metric in rules))
    stretch = _FIRST_STRETCH * (1 - _FIRST_STRETCH) ** (max(1, look.stretch) - 1)
    part = (1 - _WHOLE) / (look.step * (look.step + 1)) if look.step else _WHOLE
    return look.false_aborts * stretch * part / tested
