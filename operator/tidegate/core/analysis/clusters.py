"""Events that come in clusters: whether more of them than the requests explain are the canary's.

A cache that is full preempts many requests at once, so the number of events says little: the error
comes from what is seen between intervals. Busy intervals scatter most and count for less. Weights
follow requests only; if they followed events, the side that had a burst would be favoured.
"""

import math
from collections.abc import Sequence

from tidegate.core.analysis import betting, shares
from tidegate.core.analysis.betting import Tally
from tidegate.core.analysis.shares import Difference

_CLUSTERED = 1.3
_FEWEST_EVENTS = 20.0


def are_likely(tallies: Sequence[Tally]) -> bool:
    """Return whether events are so many, and scatter so much, that they come in clusters."""
    events = sum(of.canary + of.baseline for of in tallies)
    return events >= _FEWEST_EVENTS and betting.dispersion(tallies) > _CLUSTERED


def compare(tallies: Sequence[Tally], ratio: float) -> Difference | None:
    """Return how many more events are the canary's than if its rate were `ratio` times as high.

    The unit is events by their weight. None where the sides meet in fewer than two intervals.
    """
    met = [of for of in tallies if min(of.canary_requests, of.baseline_requests) > 0]
    if len(met) < 2:
        return None
    fitted = betting.ratio_of(met)
    usual = sum(_requests(of) for of in met) / len(met)
    value = variance = 0.0
    weights, rests = [], []
    for of in met:
        events = of.canary + of.baseline
        weight = 1 / (1 + _requests(of) / usual)
        share = betting.share(of, fitted)
        value += weight * (of.canary - events * betting.share(of, ratio))
        variance += weight * weight * events * share * (1 - share)
        rests.append(weight * (of.canary - events * share))
        weights.append(weight * _requests(of))
    between, widening = shares.between(rests), shares.widening(rests)
    error = math.sqrt(max(variance, between * widening))
    return Difference(value, error, shares.degrees(weights) / widening)


def _requests(tally: Tally) -> float:
    return tally.canary_requests + tally.baseline_requests
