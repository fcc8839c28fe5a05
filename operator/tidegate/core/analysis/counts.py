"""Events that should hit both sides by their requests: failures, refusals, restarts, preemptions.

They are compared by bets on whose events they are (`betting`), which hold for one event as for
thousands: at low traffic one error is a large share and little evidence. What must be ruled out is
ruled out by Wilson's and Poisson's limits, with as many events as they count for.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from tidegate.core.analysis import betting, clusters, comparison, limits, rules
from tidegate.core.analysis.betting import Tally
from tidegate.core.analysis.comparison import Comparison
from tidegate.core.analysis.evidence import Bound, Evidence, Measurement, Metric, Rule, Verdict
from tidegate.core.analysis.timeline import Pair

_PER = 1000.0
_RESTARTS_PER_REQUEST = 1 / 10_000
"""Restarts of engines that are no surprise: about one in three hours at one request a second."""

_CLUSTERED_REQUESTS = 100.0
_IN_CLUSTERS = frozenset({Metric.PREEMPTIONS})
"""What a full cache does to many at once, whether or not the first intervals show it."""
_GROSS = 3.0
"""How many times as often events must be the canary's for clusters to be no explanation."""
_FAILURES_PER_REQUEST = 0.02
"""Failures that are no surprise, or `_GROSS` times those of the baseline where these are more."""
_ON_THEIR_RATE = 0.1
"""Part of the stake on failures that is bet against this rate."""

Count = Callable[[Evidence], float | None]


def _restarts(evidence: Evidence) -> float | None:
    return None if evidence.restarts is None else sum(evidence.restarts.values())


_COUNTS: Mapping[Metric, tuple[str, Count]] = {
    Metric.SURVIVAL: ("failures", lambda evidence: evidence.ended_badly),
    Metric.REFUSALS: ("refusals", lambda evidence: evidence.refused),
    Metric.ABANDONMENTS: ("abandonments", lambda evidence: evidence.abandoned),
    Metric.RESTARTS: ("restarts", _restarts),
    Metric.PREEMPTIONS: ("preemptions", lambda evidence: evidence.preemptions),
}


def measure_survival(rule: Rule, pairs: Sequence[Pair], error_rate: float) -> Measurement:
    """Return what is said of the share of requests that end well."""
    metric, bound = Metric.SURVIVAL, rule.bound
    tallies = _tallies(metric, pairs)
    if not tallies:
        return _no_data(metric, bound, pairs)
    found, total = _survival(bound, tallies, error_rate), _total(tallies)
    if _is_too_little(metric, rule, total, found, error_rate):
        return _too_few(metric, rule, total)
    words = (
        f"{found.canary:.2%} of {found.samples:,.0f} requests ended well against "
        f"{found.baseline:.2%} of {total.baseline_requests:,.0f}"
    )
    margin = f"{100 * (bound.margin or 0.0):g} points"
    return comparison.measured(metric, bound, found, error_rate, words, margin)


def measure_events(
    metric: Metric, rule: Rule, pairs: Sequence[Pair], error_rate: float
) -> Measurement:
    """Return what is said of refusals, abandonments, restarts or preemptions."""
    bound = rule.bound
    tallies = _tallies(metric, pairs)
    if not tallies:
        return _no_data(metric, bound, pairs)
    found = _events(metric, bound, tallies, error_rate)
    total = _total(tallies)
    if _is_too_little(metric, rule, total, found, error_rate):
        return _too_few(metric, rule, total)
    if metric is Metric.RESTARTS and not total.canary:
        return _no_restart(bound, found)
    words = (
        f"{comparison.rate(found.canary)} {_COUNTS[metric][0]}{_causes(metric, pairs)} per 1,000 "
        f"requests against {comparison.rate(found.baseline)}, in {found.samples:,.0f} requests"
    )
    margin = f"{comparison.rate(_margin(metric, bound, found.baseline))} per 1,000"
    return comparison.measured(metric, bound, found, error_rate, words, margin)


def is_beyond(one: Measurement) -> bool:
    """Say whether a canary is worse by more than its margin as measured, chance or not."""
    if one.canary is None or one.baseline is None:
        return False
    if one.metric is Metric.SURVIVAL:
        return one.bound.margin is not None and one.baseline - one.canary > one.bound.margin
    if one.metric not in rules.LEAST_MARGINS:
        return False
    return one.canary - one.baseline > _margin(one.metric, one.bound, one.baseline)


def _is_too_little(
    metric: Metric, rule: Rule, total: Tally, found: Comparison, error_rate: float
) -> bool:
    """Return whether there are fewer than `min_samples`, and that is why nothing follows.

    A canary that falls over, or fails what it is asked, may fail before: it never gets as many.
    """
    if _fewest(total) >= rule.min_samples:
        return False
    is_compared = metric is Metric.SURVIVAL and total.baseline_requests >= rule.min_samples
    may_fail = is_compared or metric is Metric.RESTARTS
    return not (may_fail and found.verdict(error_rate) is Verdict.FAIL)


def _no_restart(bound: Bound, found: Comparison) -> Measurement:
    """Return that no engine of the canary has restarted: that is seen, and needs no proof."""
    metric, samples = Metric.RESTARTS, found.samples
    message = f"no engine restarted in {samples:,.0f} requests"
    return Measurement(
        metric,
        Verdict.PASS,
        0.0,
        found.baseline,
        bound,
        samples,
        1.0,
        message,
        found.baseline_samples,
    )


def _survival(bound: Bound, tallies: Sequence[Tally], error_rate: float) -> Comparison:
    total, spread = _total(tallies), betting.dispersion(tallies)
    canary = limits.of_share(total.canary / spread, total.canary_requests / spread)
    baseline = limits.of_share(total.baseline / spread, total.baseline_requests / spread)
    absolute = bound.absolute
    tells = absolute is not None and 1 - baseline.value >= absolute
    is_safe = absolute is None or not tells or 1 - canary.high >= absolute
    margin = math.inf if bound.margin is None else bound.margin
    return Comparison(
        canary=1 - canary.value,
        baseline=1 - baseline.value,
        samples=total.canary_requests,
        baseline_samples=total.baseline_requests,
        log_winnings=_winnings(Metric.SURVIVAL, tallies, error_rate),
        is_beyond_half=canary.value - baseline.value > margin / 2,
        is_ruled_out=is_safe and _is_ruled_out(Metric.SURVIVAL, tallies, canary, baseline, margin),
        breaks_absolute=absolute is not None and tells and 1 - canary.value < absolute,
    )


def _events(
    metric: Metric, bound: Bound, tallies: Sequence[Tally], error_rate: float
) -> Comparison:
    total, spread = _total(tallies), betting.dispersion(tallies)
    canary = limits.of_rate(total.canary / spread, total.canary_requests / spread / _PER)
    baseline = limits.of_rate(total.baseline / spread, total.baseline_requests / spread / _PER)
    margin = _margin(metric, bound, baseline.value)
    absolute = bound.absolute
    return Comparison(
        canary=canary.value,
        baseline=baseline.value,
        samples=total.canary_requests,
        baseline_samples=total.baseline_requests,
        log_winnings=_winnings(metric, tallies, error_rate),
        is_beyond_half=_is_above(canary.value, baseline.value + margin / 2, total.canary),
        is_ruled_out=_is_ruled_out(metric, tallies, canary, baseline, margin),
        breaks_absolute=absolute is not None and canary.value > absolute >= baseline.value,
    )


def _winnings(metric: Metric, tallies: Sequence[Tally], error_rate: float) -> float:
    """Return the log of what a bet on a worse canary has won.

    Engines that are well hardly ever restart: that is known beforehand, so restarts are held
    against this rate (or the baseline's, if higher) and not only against the other side. So are
    failures, with a part of the stake: gates ask a pod that fails less and less, and of a few
    requests no comparison of the sides tells a canary that fails all of them from a burst.
    """
    if metric not in (Metric.RESTARTS, Metric.SURVIVAL):
        return _winnings_of_share(metric, tallies, error_rate)
    total, most = _total(tallies), betting.most_of_one(error_rate)
    seen = _baseline_rate(total)
    if metric is Metric.RESTARTS:
        rates = [max(_RESTARTS_PER_REQUEST, seen)] * len(tallies)
        return betting.of_rate(tallies, rates, most)
    rates = [max(_FAILURES_PER_REQUEST, _GROSS * max(seen, _baseline_rate(of))) for of in tallies]
    by_side = _winnings_of_share(metric, tallies, error_rate)
    return betting.of_both(by_side, betting.of_rate(tallies, rates, most), _ON_THEIR_RATE)


def _baseline_rate(tally: Tally) -> float:
    return tally.baseline / tally.baseline_requests if tally.baseline_requests > 0 else 0.0


def _winnings_of_share(metric: Metric, tallies: Sequence[Tally], error_rate: float) -> float:
    """Return the same for what has no rate that is known beforehand."""
    most = betting.most_of_one(error_rate)
    won = betting.of_counts(tallies, most)
    if not _come_in_clusters(metric, tallies):
        return won
    found = clusters.compare(tallies, 1.0)
    if found is None:
        return 0.0
    drift = betting.of_drift(found.z, _total(tallies).canary_requests, _CLUSTERED_REQUESTS)
    return min(won, max(drift, betting.of_gross(tallies, _GROSS, most)))


def _come_in_clusters(metric: Metric, tallies: Sequence[Tally]) -> bool:
    return metric in _IN_CLUSTERS or clusters.are_likely(tallies)


def _is_ruled_out(
    metric: Metric,
    tallies: Sequence[Tally],
    canary: limits.Range,
    baseline: limits.Range,
    margin: float,
) -> bool:
    """Return whether it is sure that the canary's rate is not higher by the margin or more."""
    if limits.highest_difference(canary, baseline) >= margin:
        return False
    if math.isinf(margin) or baseline.value <= 0 or not _come_in_clusters(metric, tallies):
        return True
    found = clusters.compare(tallies, 1 + margin / baseline.value)
    return found is not None and found.z <= -limits.CERTAIN


def _is_above(value: float, mark: float, events: float) -> bool:
    """Return whether a rate is above a mark; events without any request are above every mark."""
    return events > 0 and (value > mark or value == 0)


def _margin(metric: Metric, bound: Bound, baseline: float) -> float:
    """Return how many more per 1,000 requests must be caught."""
    if bound.margin is None:
        return math.inf
    wider = max(1.0, bound.margin / (rules.DEFAULTS[metric].bound.margin or bound.margin))
    return max(rules.LEAST_MARGINS[metric] * wider, bound.margin * baseline)


def _tallies(metric: Metric, pairs: Sequence[Pair]) -> list[Tally]:
    """Return the events of the intervals in which both sides' are known."""
    tallies = []
    for pair in pairs:
        canary, baseline = _side(metric, pair.canary), _side(metric, pair.baseline)
        if canary is not None and baseline is not None:
            tallies.append(Tally(canary[0], baseline[0], canary[1], baseline[1]))
    return tallies


def _side(metric: Metric, evidence: Evidence) -> tuple[float, float] | None:
    """Return a side's events and what they could happen to."""
    events = _COUNTS[metric][1](evidence)
    requests = evidence.ended if metric is Metric.SURVIVAL else evidence.requests
    if events is None or requests is None:
        return None
    return events, requests


def _total(tallies: Sequence[Tally]) -> Tally:
    return Tally(
        canary=sum(of.canary for of in tallies),
        baseline=sum(of.baseline for of in tallies),
        canary_requests=sum(of.canary_requests for of in tallies),
        baseline_requests=sum(of.baseline_requests for of in tallies),
    )


def _fewest(total: Tally) -> float:
    return min(total.canary_requests, total.baseline_requests)


def _too_few(metric: Metric, rule: Rule, total: Tally) -> Measurement:
    samples = total.canary_requests, total.baseline_requests
    few, needs = min(samples), rule.min_samples
    values = (
        _value(metric, total.canary, total.canary_requests),
        _value(metric, total.baseline, total.baseline_requests),
    )
    return comparison.too_few(metric, rule.bound, few, needs, "requests", samples, values)


def _value(metric: Metric, events: float, requests: float) -> float | None:
    """Return what a side measured, in the metric's unit; None where nothing was served."""
    if requests <= 0:
        return None
    rate = events / requests
    return 1 - rate if metric is Metric.SURVIVAL else rate * _PER


def _no_data(metric: Metric, bound: Bound, pairs: Sequence[Pair]) -> Measurement:
    return comparison.no_data(metric, bound, pairs, lambda side: _side(metric, side) is not None)


def _causes(metric: Metric, pairs: Sequence[Pair]) -> str:
    """Return the causes of the canary's restarts in brackets, most frequent first."""
    causes: dict[str, float] = {}
    for pair in pairs:
        for cause, count in (pair.canary.restarts or {}).items():
            causes[cause] = causes.get(cause, 0.0) + count
    told = [f"{count:.0f} by {cause}" for cause, count in _ranked(causes) if count > 0]
    return f" ({', '.join(told)})" if told and metric is Metric.RESTARTS else ""


def _ranked(causes: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(causes.items(), key=lambda entry: (-entry[1], entry[0]))
