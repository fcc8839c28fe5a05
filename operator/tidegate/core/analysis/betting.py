"""Evidence that may be looked at as often as one likes: the winnings of a bet against chance.

A gambler bets that the canary is worse, in a game that is fair if it is not. Whoever plays a fair
game from 1 ever holds 1/p or more with a chance of p at most (Ville's inequality), whenever and
however often one looks. So a canary is called worse once the winnings reach one over the error
rate, and no number of looks needs to be planned: a rollout may be paused, or take days.

Literature: Robbins, Statistical methods related to the law of the iterated logarithm (1970);
Howard, Ramdas, McAuliffe, Sekhon, Time-uniform nonparametric confidence sequences (2021).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.analysis import distributions

_RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""How many times as often the bets on counts say that the canary fails; the stake is divided."""
_FEWEST_FOR_DISPERSION = 3
_DECISIVE_INTERVALS = 2.5
_NEVER = 1e-9


@dataclass(frozen=True)
class Tally:
    """Events of both sides in one interval, and what they had to happen to (requests)."""

    canary: float
    baseline: float
    canary_requests: float
    baseline_requests: float


def of_drift(z: float, samples: float, first_samples: float) -> float:
    """Return the log of the winnings from a mean that should not be above zero.

    The bets are half-normal over the size of the effect, so effects that show after about twenty
    times `first_samples` are found soonest.

    Args:
        z: The mean over its standard error.
        samples: How much it rests on.
        first_samples: How much there must be before anything is said.
    """
    if samples <= 0:
        return 0.0
    part = samples / (samples + first_samples)
    chance = distributions.normal_cdf(z * math.sqrt(part))
    if chance <= 0:
        return -math.inf
    return math.log(2) + 0.5 * math.log1p(-part) + 0.5 * z * z * part + math.log(chance)


def of_counts(tallies: Sequence[Tally], most: float) -> float:
    """Return the log of the winnings from events that should hit both sides by their requests.

    Given that an event happened in an interval, its side is drawn by the requests there. Events
    that come in bursts say less than their number: winnings are divided by their dispersion.

    Args:
        tallies: One for each interval.
        most: Log of the most that a single interval may win, so that one burst decides nothing.
    """
    played = [tally for tally in tallies if tally.canary + tally.baseline > 0]
    spread = dispersion(tallies)
    winnings = [
        sum(min(most, _won(tally, ratio) / spread) for tally in played) for ratio in _RATIOS
    ]
    return _log_mean(winnings)


def of_gross(tallies: Sequence[Tally], times: float, most: float) -> float:
    """Return the log of the winnings from events that should hit the canary no more than `times`.

    As `of_counts`, but whatever wanders on one side by less than `times` is no evidence. So it
    needs no scatter between intervals to tell a fault from a queue, and may be sure soon.
    """
    return of_counts(
        [replace(tally, canary_requests=times * tally.canary_requests) for tally in tallies], most
    )


def of_rate(tallies: Sequence[Tally], rates: Sequence[float], most: float) -> float:
    """Return the log of the winnings from the canary's events that should not exceed a rate.

    Args:
        tallies: One for each interval; the baseline's part is not looked at.
        rates: Events for each request that are no surprise, in each interval.
        most: As in `of_counts`.
    """
    expected = [
        (tally.canary, rate * tally.canary_requests)
        for tally, rate in zip(tallies, rates, strict=True)
    ]
    winnings = [
        sum(min(most, seen * math.log(ratio) - (ratio - 1) * usual) for seen, usual in expected)
        for ratio in _RATIOS
    ]
    return _log_mean(winnings)


def of_both(log_one: float, log_other: float, part: float) -> float:
    """Return the log of what two bets have won, of which the other has this part of the stake."""
    top = max(log_one, log_other)
    won = (1 - part) * math.exp(log_one - top) + part * math.exp(log_other - top)
    return top + math.log(won)


def dispersion(tallies: Sequence[Tally]) -> float:
    """Return how much more events scatter between the sides than single ones would; 1 or more.

    It is Pearson's statistic around the ratio that was found, so a canary that is steadily worse
    does not count as scatter.
    """
    played = [tally for tally in tallies if tells(tally)]
    if len(played) < _FEWEST_FOR_DISPERSION:
        return 1.0
    ratio = ratio_of(played)
    scatter = 0.0
    for tally in played:
        events, expected = tally.canary + tally.baseline, share(tally, ratio)
        scatter += (tally.canary - events * expected) ** 2 / (events * expected * (1 - expected))
    return max(1.0, scatter / (len(played) - 1))


def tells(tally: Tally) -> bool:
    """Return whether an interval has events that could have been on either side."""
    return tally.canary + tally.baseline > 0 and min(_requests(tally)) > 0


def ratio_of(tallies: Sequence[Tally]) -> float:
    """Return the ratio of the sides' rates (Mantel and Haenszel).

    Half an event is given to either side, so that the first burst is scatter and not a ratio. It
    has no upper end: what lies beyond one would look like events that come in clusters.
    """
    above = below = 0.5
    for tally in tallies:
        requests = sum(_requests(tally))
        above += tally.canary * tally.baseline_requests / requests
        below += tally.baseline * tally.canary_requests / requests
    return above / below


def share(tally: Tally, ratio: float) -> float:
    """Return which share of an interval's events would be the canary's at a ratio of rates."""
    weight = ratio * tally.canary_requests
    whole = weight + tally.baseline_requests
    return min(1 - _NEVER, max(_NEVER, weight / whole)) if whole > 0 else 0.5


def most_of_one(error_rate: float) -> float:
    """Return the log of the most that a single interval may win: one burst decides nothing.

    Two that win it are not enough, three are, though not every ratio that is bet on wins as much.
    """
    return -math.log(error_rate) / _DECISIVE_INTERVALS


def chance(log_winnings: float) -> float:
    """Return how likely an equal canary wins as much, at any look: an always-valid p-value."""
    return min(1.0, math.exp(-max(0.0, log_winnings)))


def _won(tally: Tally, ratio: float) -> float:
    """Return the log likelihood ratio of an interval's events between a ratio and none."""
    canary, baseline = _requests(tally)
    if canary <= 0 or baseline <= 0:
        return 0.0
    events = tally.canary + tally.baseline
    thinned = math.log((canary + baseline) / (ratio * canary + baseline))
    return tally.canary * math.log(ratio) + events * thinned


def _requests(tally: Tally) -> tuple[float, float]:
    return tally.canary_requests, tally.baseline_requests


def _log_mean(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(sum(math.exp(value - top) for value in logs) / len(logs))
