"""A step of a rollout by itself: what it must show beside what all evidence says.

Evidence is collected over all steps, and what was good for hours outweighs what is bad since now.
So the intervals of a step are judged by themselves as well: as a bet of their own, which has its
part of the error rate, and for a Pass by what was measured lately. That can only hold a step back,
so it costs nothing of the rate.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.analysis import counts, judge, latency, timeline
from tidegate.core.analysis.evidence import (
    Evidence,
    Judgement,
    Look,
    Measurement,
    Metric,
    Rules,
    Verdict,
)

_OF_ALL = frozenset({Metric.MEMORY_GROWTH, Metric.KV_DRIFT, Metric.PREFIX_HIT_RATE})
"""A slope needs more time than a step has; the others say how it is now, whatever they rest on."""
_HERE = "in this step alone"
_LATELY = "lately"
_TOO_EARLY = "no interval of this step is over yet"


def judge_step(
    of: Rules, canary: Sequence[Evidence], baseline: Sequence[Evidence], look: Look, since: float
) -> Judgement:
    """Judge a canary at a step: by all that is known of it, and by what the step itself shows.

    Args:
        of: The metrics that are judged, and how.
        canary: The canary's intervals since the end of its warm-up, in the order of time.
        baseline: The baseline's.
        look: Which look it is, and at which step.
        since: When the step's own evidence begins.

    Returns:
        The judgement on all evidence. But Fail where that of a later step fails alone; and no Pass
        while it has fewer than `min_samples`, or the canary was lately beyond a bound as measured.
        What decides so stands in the place of what all evidence says of its metric.
    """
    whole = judge.judge(of, canary, baseline, replace(look, step=0))
    if whole.verdict is Verdict.FAIL:
        return whole
    rules = {metric: rule for metric, rule in of.items() if metric not in _OF_ALL}

    def from_on(begin: float) -> Sequence[Measurement]:
        ours, theirs = ([one for one in side if one.at >= begin] for side in (canary, baseline))
        return judge.judge(rules, ours, theirs, look).measurements

    is_later = look.step > 0 and any(one.at < since for one in canary)
    own = from_on(since) if is_later else whole.measurements
    failed = [one for one in own if one.verdict is Verdict.FAIL]
    if failed:
        return _decided(whole, Verdict.FAIL, failed, _HERE)
    if whole.verdict is not Verdict.PASS:
        return whole
    if is_later and canary[-1].at < since:
        return replace(whole, verdict=Verdict.INCONCLUSIVE, message=_TOO_EARLY)
    few = [one for one in own if one.metric in rules and _is_too_few(one, rules)]
    if few:
        return _decided(whole, Verdict.INCONCLUSIVE, few, _HERE)
    begin = _recent(canary, since if is_later else -math.inf)
    lately = own if begin is None else from_on(begin)
    beyond = [one for one in lately if one.metric in rules and _is_beyond(one, rules)]
    return _decided(whole, Verdict.INCONCLUSIVE, beyond, _LATELY) if beyond else whole


def _recent(canary: Sequence[Evidence], since: float) -> float | None:
    """Return when the last intervals of a step begin; None where it has no older ones."""
    own = [one for one in canary if one.at >= since]
    is_long = len(own) > timeline.RECENT_INTERVALS
    return own[-timeline.RECENT_INTERVALS].at if is_long else None


def _is_too_few(one: Measurement, rules: Rules) -> bool:
    """Say whether a metric has less than what is evidence at all.

    One that passes rests on enough, be it that neither side has such times.
    """
    fewest = min(one.samples, one.baseline_samples or 0.0)
    return one.verdict is not Verdict.PASS and fewest < rules[one.metric].min_samples


def _is_beyond(one: Measurement, rules: Rules) -> bool:
    """Say whether enough samples are worse than a bound allows, chance or not."""
    if one.verdict is Verdict.PASS or _is_too_few(one, rules):
        return False
    if one.verdict is Verdict.FAIL:
        return True
    if one.metric in latency.SUBJECTS:
        return latency.is_beyond(one)
    return counts.is_beyond(one)


def _decided(
    whole: Judgement, verdict: Verdict, by: Sequence[Measurement], where: str
) -> Judgement:
    """Return the judgement that a step's own measurements decide."""
    own = {one.metric: replace(one, verdict=verdict) for one in by}
    measurements = tuple(own.get(one.metric, one) for one in whole.measurements)
    return Judgement(verdict, measurements, f"{where}: {judge.told(by)}")
