"""Prometheus as the judge sees it, in memory: intervals from 30 s on from what a test says."""

import math
from dataclasses import dataclass, field

from tidegate.core.analysis.evidence import Evidence, Histogram, Metric
from tidegate.core.canary import questions
from tidegate.flow.ports import ReadFailed, Ref, Sides

_INTERVAL = 30
_BOUNDS = (0.1, 0.2, 0.4, 0.8)


@dataclass
class Evidences:
    """`requests` come to each side in 30 s, `bad` of the canary's end badly.

    `bad_from` says since when, and `gone_from` from when on none comes to the canary.
    """

    requests: float = 600.0
    bad: float = 0.0
    bad_from: float = -math.inf
    gone_from: float = math.inf
    is_away: bool = False
    metrics: frozenset[Metric] = frozenset({Metric.SURVIVAL, Metric.TTFT_P50, Metric.TTFT_P95})
    asked: list[tuple[Ref, str, str, float, float]] = field(default_factory=list)

    async def of(self, ref: Ref, canary: str, baseline: str, since: float, now: float) -> Sides:
        self.asked.append((ref, canary, baseline, since, now))
        if self.is_away:
            raise ReadFailed("Prometheus gives no answer")
        intervals = [
            (window.first_end + window.seconds * (number - 1), window.seconds)
            for window in questions.windows(since, now, _INTERVAL)
            for number in range(round((window.last_end - window.first_end) / window.seconds) + 1)
        ]
        return Sides(
            tuple(self._canary(at, seconds) for at, seconds in intervals),
            tuple(self._interval(at, seconds, self.requests, 0.0) for at, seconds in intervals),
        )

    def _canary(self, at: float, seconds: float) -> Evidence:
        served = _part(at, seconds, -math.inf, self.gone_from)
        failed = _part(at, seconds, self.bad_from, self.gone_from)
        return self._interval(at, seconds, served * self.requests, failed * self.bad)

    def _interval(self, at: float, seconds: float, requests: float, bad: float) -> Evidence:
        count, failed = (number * seconds / _INTERVAL for number in (requests, bad))
        spread = (count * 0.2, count * 0.5, count * 0.25, count * 0.05, 0.0)
        return Evidence(
            at=at,
            seconds=seconds,
            ended_well=count - failed,
            ended_badly=failed,
            ttft=Histogram(_BOUNDS, spread),
        )


def _part(at: float, seconds: float, begin: float, end: float) -> float:
    """Return which part of an interval lies between two times."""
    return max(0.0, min(at + seconds, end) - max(at, begin)) / seconds
