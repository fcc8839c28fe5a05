"""Times: whether more of the canary's are long than of the baseline's, by interval.

The mark is the baseline's own quantile over the whole time. An equal canary has the same share of
its times above it. To ask whether the canary is slower by a ratio, its mark is moved by the ratio.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tidegate.core.analysis import betting, comparison, histograms, limits, shares
from tidegate.core.analysis.betting import Tally
from tidegate.core.analysis.comparison import Comparison
from tidegate.core.analysis.evidence import Evidence, Histogram, Measurement, Metric, Rule, Verdict
from tidegate.core.analysis.shares import Stratum
from tidegate.core.analysis.timeline import Pair

FEWEST_INTERVALS = 6
_FEWEST_GROSS_INTERVALS = 3
_GROSS = 1.5
"""How many times as long a canary's times must be for no queue that wanders to explain them."""
_CALM_SECONDS = 1260.0
"""From when on half of a margin is no queue that wanders on one side only.

Such wandering (5 % of TTFT, minutes at a time) cannot be told from a fault by a few minutes of it.
Its mean falls with the square root of time, so until then more is asked for than half of a margin.
"""


@dataclass(frozen=True)
class _Subject:
    """Which histogram a metric is of, and which share of its times is below the mark."""

    of: Literal["ttft", "tpot"]
    share: float
    name: str


SUBJECTS: Mapping[Metric, _Subject] = {
    Metric.TTFT_P50: _Subject("ttft", 0.5, "TTFT p50"),
    Metric.TTFT_P95: _Subject("ttft", 0.95, "TTFT p95"),
    Metric.TPOT_P50: _Subject("tpot", 0.5, "TPOT p50"),
    Metric.TPOT_P95: _Subject("tpot", 0.95, "TPOT p95"),
}


@dataclass(frozen=True)
class _Times:
    """One interval's times of both sides."""

    seconds: float
    canary: Histogram
    baseline: Histogram


def measure(metric: Metric, rule: Rule, pairs: Sequence[Pair], error_rate: float) -> Measurement:
    """Return what is said of one of `SUBJECTS`."""
    subject, bound = SUBJECTS[metric], rule.bound
    times = [of for pair in pairs if (of := _times(pair, subject)) is not None]
    if not times:
        return comparison.no_data(
            metric, bound, pairs, lambda side: _histogram(side, subject) is not None
        )
    if subject.of == "tpot" and all(of.canary.total == 0 == of.baseline.total for of in times):
        return _nothing_streamed(metric, rule, pairs)
    samples = _samples(pairs, subject, "canary"), _samples(pairs, subject, "baseline")
    values = _quantiles(times, subject.share)
    if min(samples) < rule.min_samples:
        few, needs = min(samples), rule.min_samples
        return comparison.too_few(metric, bound, few, needs, "requests", samples, values)
    found = _compared(subject, rule, times, samples, error_rate)
    is_early = len(times) < FEWEST_INTERVALS
    if found is None or (is_early and found.verdict(error_rate) is not Verdict.FAIL):
        count, unit = len(times), "intervals with requests"
        return comparison.too_few(metric, bound, count, FEWEST_INTERVALS, unit, samples, values)
    margin = f"{bound.margin or 0.0:.0%}"
    return comparison.measured(metric, bound, found, error_rate, _words(subject, found), margin)


def is_beyond(one: Measurement) -> bool:
    """Say whether a canary is slower by more than its margin as measured, chance or not."""
    if one.canary is None or one.baseline is None or one.bound.margin is None:
        return False
    return one.canary > one.baseline * (1 + one.bound.margin)


def _nothing_streamed(metric: Metric, rule: Rule, pairs: Sequence[Pair]) -> Measurement:
    """Return what follows where no side has a time: nothing to judge, once both served enough."""
    samples = (
        sum(pair.canary.requests or 0.0 for pair in pairs),
        sum(pair.baseline.requests or 0.0 for pair in pairs),
    )
    served, needs = min(samples), rule.min_samples
    if served < max(1, needs):
        return comparison.too_few(metric, rule.bound, served, needs, "requests", samples)
    message = "neither side streamed an answer: nothing to judge"
    return Measurement(metric, Verdict.PASS, None, None, rule.bound, 0.0, None, message, 0.0)


def _compared(
    subject: _Subject,
    rule: Rule,
    times: Sequence[_Times],
    samples: tuple[float, float],
    error_rate: float,
) -> Comparison | None:
    """Return the comparison; None where the sides meet in too few intervals.

    In the first ones only what is grossly slower is evidence.
    """
    canary, baseline = _quantiles(times, subject.share)
    if canary is None or baseline is None:
        return None
    margin = rule.bound.margin
    equal = _differs(times, baseline, 1.0)
    if equal is None or len(times) < _FEWEST_GROSS_INTERVALS:
        return None
    won = betting.of_counts(_long_times(times, baseline), betting.most_of_one(error_rate))
    if len(times) >= FEWEST_INTERVALS:
        won = max(won, betting.of_drift(equal.z, samples[0], max(1, rule.min_samples)))
    half = _differs(times, baseline, 1 + margin * _part(times)) if margin is not None else None
    full = _differs(times, baseline, 1 + margin) if margin is not None else None
    absolute = rule.bound.absolute
    return Comparison(
        canary=canary,
        baseline=baseline,
        samples=samples[0],
        baseline_samples=samples[1],
        log_winnings=won,
        is_beyond_half=half is not None and half.value > 0,
        is_ruled_out=margin is None or (full is not None and full.z <= -limits.CERTAIN),
        breaks_absolute=absolute is not None and canary > absolute >= baseline,
    )


def _quantiles(times: Sequence[_Times], share: float) -> tuple[float | None, float | None]:
    """Return the canary's and the baseline's quantile over all intervals."""
    canary = histograms.merged([of.canary for of in times])
    baseline = histograms.merged([of.baseline for of in times])
    return (
        None if canary is None else histograms.quantile(canary, share),
        None if baseline is None else histograms.quantile(baseline, share),
    )


def _long_times(times: Sequence[_Times], mark: float) -> list[Tally]:
    """Return whose times are above the mark, the canary's once divided by what is gross.

    Then each one is an event: how intervals differ need not be known first, since no side wanders
    by as much.
    """
    return [
        Tally(
            canary=histograms.above(of.canary, mark * _GROSS),
            baseline=histograms.above(of.baseline, mark),
            canary_requests=of.canary.total,
            baseline_requests=of.baseline.total,
        )
        for of in times
    ]


def _part(times: Sequence[_Times]) -> float:
    """Return which part of a margin a canary must be beyond to fail."""
    return 0.5 * max(1.0, math.sqrt(_CALM_SECONDS / sum(of.seconds for of in times)))


def _differs(times: Sequence[_Times], mark: float, ratio: float) -> shares.Difference | None:
    """Return how much more of the canary's times are above the mark, once divided by a ratio."""
    return shares.compare(
        [
            Stratum(
                canary=histograms.above(of.canary, mark * ratio),
                canary_of=of.canary.total,
                baseline=histograms.above(of.baseline, mark),
                baseline_of=of.baseline.total,
            )
            for of in times
        ]
    )


def _times(pair: Pair, subject: _Subject) -> _Times | None:
    canary, baseline = _histogram(pair.canary, subject), _histogram(pair.baseline, subject)
    return (
        None
        if canary is None or baseline is None
        else _Times(pair.canary.seconds, canary, baseline)
    )


def _histogram(evidence: Evidence, subject: _Subject) -> Histogram | None:
    return evidence.ttft if subject.of == "ttft" else evidence.tpot


def _samples(
    pairs: Sequence[Pair], subject: _Subject, side: Literal["canary", "baseline"]
) -> float:
    """Return how many requests a side's times are of. An answer's tokens are one sample."""
    total = 0.0
    for pair in pairs:
        evidence = pair.canary if side == "canary" else pair.baseline
        histogram = _histogram(evidence, subject)
        if histogram is not None and _times(pair, subject) is not None:
            answers = evidence.ttft.total if evidence.ttft is not None else histogram.total
            total += min(histogram.total, answers)
    return total


def _words(subject: _Subject, found: Comparison) -> str:
    change = f" ({found.canary / found.baseline - 1:+.1%})" if found.baseline > 0 else ""
    return (
        f"{subject.name} is {_seconds(found.canary)} against {_seconds(found.baseline)}{change} "
        f"in {found.samples:,.0f} requests"
    )


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
