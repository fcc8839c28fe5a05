"""Prometheus as the judge sees it, in memory: intervals of 30 s from what a test says."""

from dataclasses import dataclass, field, replace

from tidegate.core.analysis.evidence import Evidence, Histogram, Metric
from tidegate.flow.ports import ReadFailed, Ref, Sides

_INTERVAL = 30.0
_BOUNDS = (0.1, 0.2, 0.4, 0.8)


@dataclass
class Evidences:
    """`requests` come to each side in each interval, `bad` of the canary's end badly."""

    requests: float = 600.0
    bad: float = 0.0
    is_away: bool = False
    metrics: frozenset[Metric] = frozenset({Metric.SURVIVAL, Metric.TTFT_P50, Metric.TTFT_P95})
    asked: list[tuple[Ref, str, str, float, float]] = field(default_factory=list)

    async def of(self, ref: Ref, canary: str, baseline: str, since: float, now: float) -> Sides:
        self.asked.append((ref, canary, baseline, since, now))
        if self.is_away:
            raise ReadFailed("Prometheus gives no answer")
        times = [since + _INTERVAL * n for n in range(int((now - since) // _INTERVAL))]
        good = tuple(self._interval(at) for at in times)
        worse = {"ended_well": self.requests - self.bad, "ended_badly": self.bad}
        return Sides(tuple(replace(one, **worse) for one in good), good)

    def _interval(self, at: float) -> Evidence:
        count = self.requests
        spread = (count * 0.2, count * 0.5, count * 0.25, count * 0.05, 0.0)
        return Evidence(
            at=at,
            seconds=_INTERVAL,
            ended_well=count,
            ended_badly=0.0,
            ttft=Histogram(_BOUNDS, spread),
        )
