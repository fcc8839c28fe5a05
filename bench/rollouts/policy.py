"""Who judges a simulated rollout: Tidegate's analysis, or a threshold as users write it.

The threshold is what Flagger and Argo Rollouts are given: each minute the p95 of the last minute
and the success rate, a number that they must not exceed, and five failed checks that roll back. The
number lies midway between the usual value and the fault, which nobody knows beforehand.
"""

from dataclasses import dataclass
from typing import Literal

from bench.rollouts.traffic import (
    TPOT_SECONDS,
    TPOT_SPREAD,
    TPOT_SPREAD_WITHIN,
    TTFT_SECONDS,
    TTFT_SPREAD,
    Fault,
    Load,
    World,
)
from tidegate.core.analysis import histograms, rules, timeline
from tidegate.core.analysis.evidence import Evidence, Look, Metric, Verdict
from tidegate.core.analysis.step import judge_step

STEP_SECONDS = 300.0
LONGEST_SECONDS = 12 * 3600.0
LOOK_EVERY = 1.08
CHECK_SECONDS = 60.0
FAILED_CHECKS = 5
LEAST_SUCCESS = 0.99
_Z95 = 1.645
USUAL_TTFT_P95 = TTFT_SECONDS * 2.718281828 ** (_Z95 * TTFT_SPREAD)
USUAL_TPOT_P95 = TPOT_SECONDS * 2.718281828 ** (
    _Z95 * (TPOT_SPREAD**2 + TPOT_SPREAD_WITHIN**2) ** 0.5
)
TTFT_MARGIN, TPOT_MARGIN = 1.1, 1.05

End = Literal["aborted", "promoted", "waiting"]
RULES = {metric: rule for metric, rule in rules.DEFAULTS.items() if metric is not Metric.KV_DRIFT}


@dataclass(frozen=True)
class Ended:
    """How a rollout ended.

    Attributes:
        end: Aborted, promoted, or not decided in twelve hours.
        because: The metrics that failed.
        seconds: How long it took.
        canary_requests: Requests that went to the canary.
        requests: All requests in that time.
    """

    end: End
    because: tuple[Metric, ...]
    seconds: float
    canary_requests: float
    requests: float


def tidegate(seed: str, load: Load, fault: Fault) -> Ended:
    """Return how a rollout ends that goes on at Pass, back at Fail, and waits at all else."""
    world, sides = World(seed, load, fault), _Sides()
    for number, weight in enumerate(load.weights):
        entered, looked = world.at, 0.0
        while True:
            sides.add(*world.step(timeline.interval_seconds(world.at), weight))
            if world.at < looked * LOOK_EVERY:
                continue
            looked = world.at
            judgement = judge_step(RULES, sides.canary, sides.baseline, Look(step=number), entered)
            if judgement.verdict is Verdict.FAIL:
                failed = [one for one in judgement.measurements if one.verdict is Verdict.FAIL]
                return sides.ended("aborted", world.at, tuple(one.metric for one in failed))
            if judgement.verdict is Verdict.PASS and world.at - entered >= STEP_SECONDS:
                break
            if world.at >= LONGEST_SECONDS:
                return sides.ended("waiting", world.at)
    return sides.ended("promoted", world.at)


def threshold(seed: str, load: Load, fault: Fault) -> Ended:
    """Return how a rollout ends that is judged by fixed numbers, five minutes a step."""
    world, sides, failed = World(seed, load, fault), _Sides(), 0
    for weight in load.weights:
        for _ in range(int(STEP_SECONDS / CHECK_SECONDS)):
            evidence, stable = world.step(CHECK_SECONDS, weight)
            sides.add(evidence, stable)
            failed += _exceeds(evidence)
            if failed >= FAILED_CHECKS:
                return sides.ended("aborted", world.at)
    return sides.ended("promoted", world.at)


def _exceeds(evidence: Evidence) -> bool:
    """Return whether a minute breaks a threshold. A minute without requests breaks none."""
    ttft = histograms.quantile(evidence.ttft, 0.95) if evidence.ttft else None
    tpot = histograms.quantile(evidence.tpot, 0.95) if evidence.tpot else None
    success = (evidence.ended_well or 0.0) / evidence.requests if evidence.requests else 1.0
    return (
        (ttft is not None and ttft > TTFT_MARGIN * USUAL_TTFT_P95)
        or (tpot is not None and tpot > TPOT_MARGIN * USUAL_TPOT_P95)
        or success < LEAST_SUCCESS
    )


class _Sides:
    """What was seen of both sides so far."""

    def __init__(self) -> None:
        self.canary: list[Evidence] = []
        self.baseline: list[Evidence] = []

    def add(self, canary: Evidence, baseline: Evidence) -> None:
        """Take one interval more."""
        self.canary.append(canary)
        self.baseline.append(baseline)

    def ended(self, end: End, seconds: float, because: tuple[Metric, ...] = ()) -> Ended:
        """Return an end with what it took."""
        canary = sum(of.requests or 0.0 for of in self.canary)
        baseline = sum(of.requests or 0.0 for of in self.baseline)
        return Ended(end, because, seconds, canary, canary + baseline)
