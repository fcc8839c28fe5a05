"""Both sides of a rollout as gates and engines would count them, interval by interval.

Times to first tokens are lognormal; times between tokens as well, around a level that each answer
has of its own. Bursts and drift hit both sides at once. Besides, each side wanders on its own for
some minutes at a time, as queues do. Preemptions come in clusters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import Literal

from bench.rollouts import draws
from tidegate.core.analysis.evidence import Evidence, Histogram
from tidegate.gate.shell import metrics

TTFT_SECONDS, TTFT_SPREAD = 0.25, 0.6
TPOT_SECONDS, TPOT_SPREAD, TPOT_SPREAD_WITHIN = 0.025, 0.2, 0.3
TOKENS = 150
FAILURES = 0.005
PREEMPTIONS = 0.02
RESTARTS = 1 / 50_000
LOST_IN_RESTART = 6.0
MEMORY_BYTES, MEMORY_NOISE = 20 * 2**30, 0.003
OWN_TTFT_NOISE, OWN_TPOT_NOISE, OWN_MEMORY = 0.05, 0.01, 0.8
BURST_SHARE, BURST_RATE, BURST_TTFT, BURST_TPOT, BURST_PREEMPTIONS = 0.12, 4.0, 1.8, 1.15, 4.0
DRIFT_SECONDS, DRIFT_TTFT, DRIFT_TPOT, DRIFT_RATE = 3000.0, 0.4, 0.1, 0.5

TTFT_BOUNDS = tuple(float(bound) for bound in metrics.TTFT_BOUNDS)
TPOT_BOUNDS = tuple(float(bound) for bound in metrics.TOKEN_BOUNDS)
_NORMAL = NormalDist()
_LEVELS = tuple(_NORMAL.inv_cdf((index + 0.5) / 5) for index in range(5))

Shape = Literal["steady", "bursty", "drifting"]


@dataclass(frozen=True)
class Load:
    """Traffic of a deployment; `weights` are a canary's steps in percent."""

    name: str
    requests_per_second: float
    weights: tuple[int, ...]
    shape: Shape = "steady"


@dataclass(frozen=True)
class Fault:
    """What is wrong with a canary: factors of its times and preemptions, shares of its requests."""

    name: str
    ttft: float = 1.0
    tpot: float = 1.0
    failures: float = FAILURES
    out_of_memory: float = 0.0
    preemptions: float = 1.0
    growth_percent_per_hour: float = 0.0


EQUAL = Fault("equal")


@dataclass(frozen=True)
class _Moment:
    """What both sides meet in an interval, as factors."""

    rate: float = 1.0
    ttft: float = 1.0
    tpot: float = 1.0
    preemptions: float = 1.0


class Side:
    """All pods of one revision; wanders on its own."""

    def __init__(self, random: Random, fault: Fault) -> None:
        self._random, self._fault = random, fault
        self._wander = random.gauss(0, 1)
        self._memory = random.gauss(0, 1)

    def serve(self, at: float, seconds: float, requests: int, moment: _Moment) -> Evidence:
        """Return what is seen of this side in an interval."""
        random, fault = self._random, self._fault
        self._wander = _walk(random, self._wander)
        self._memory = _walk(random, self._memory)
        killed = draws.poisson(random, requests * (RESTARTS + fault.out_of_memory))
        lost = draws.poisson(random, LOST_IN_RESTART * killed)
        failed = min(requests, draws.binomial(random, requests, fault.failures) + lost)
        answers = requests - failed
        clusters = random.gammavariate(2.0, 0.5)
        preempted = requests * PREEMPTIONS * fault.preemptions * moment.preemptions * clusters
        grown = 1 + fault.growth_percent_per_hour / 100 * at / 3600
        return Evidence(
            at=at,
            seconds=seconds,
            ended_well=answers,
            ended_badly=failed,
            refused=0.0,
            abandoned=0.0,
            ttft=self._ttft(answers, moment),
            tpot=self._tpot(answers, moment),
            preemptions=draws.poisson(random, preempted),
            restarts={"OOM": killed} if killed else {},
            memory_bytes=MEMORY_BYTES * grown * (1 + MEMORY_NOISE * self._memory),
        )

    def _ttft(self, answers: int, moment: _Moment) -> Histogram:
        own = math.exp(OWN_TTFT_NOISE * self._wander)
        middle = TTFT_SECONDS * self._fault.ttft * moment.ttft * own
        shares = _below(TTFT_BOUNDS, middle, TTFT_SPREAD)
        counts = draws.by_bucket(self._random, answers, shares)
        return Histogram(TTFT_BOUNDS, tuple(float(count) for count in counts))

    def _tpot(self, answers: int, moment: _Moment) -> Histogram:
        own = math.exp(OWN_TPOT_NOISE * self._wander)
        middle = TPOT_SECONDS * self._fault.tpot * moment.tpot * own
        totals = [0] * (len(TPOT_BOUNDS) + 1)
        shares = [(index + 1) / len(_LEVELS) for index in range(len(_LEVELS) - 1)]
        for level, number in zip(
            _LEVELS, draws.by_bucket(self._random, answers, shares), strict=True
        ):
            if number:
                below = _below(
                    TPOT_BOUNDS, middle * math.exp(TPOT_SPREAD * level), TPOT_SPREAD_WITHIN
                )
                tokens = draws.poisson(self._random, number * TOKENS)
                for index, count in enumerate(draws.by_bucket(self._random, tokens, below)):
                    totals[index] += count
        return Histogram(TPOT_BOUNDS, tuple(float(total) for total in totals))


class World:
    """A deployment in mid-rollout: time goes on by intervals, at a weight that may change."""

    def __init__(self, seed: str, load: Load, fault: Fault) -> None:
        self._random = Random(seed)
        self._load = load
        self._phase = self._random.random() * DRIFT_SECONDS
        self.canary = Side(self._random, fault)
        self.stable = Side(self._random, EQUAL)
        self.at = 0.0

    def step(self, seconds: float, weight_percent: float) -> tuple[Evidence, Evidence]:
        """Return what is seen of the canary and of the stable side in the next interval."""
        moment = self._moment()
        mean = self._load.requests_per_second * seconds * moment.rate
        share = weight_percent / 100
        canary = draws.poisson(self._random, mean * share)
        stable = draws.poisson(self._random, mean * (1 - share))
        at, self.at = self.at, self.at + seconds
        return (
            self.canary.serve(at, seconds, canary, moment),
            self.stable.serve(at, seconds, stable, moment),
        )

    def _moment(self) -> _Moment:
        if self._load.shape == "bursty" and self._random.random() < BURST_SHARE:
            return _Moment(BURST_RATE, BURST_TTFT, BURST_TPOT, BURST_PREEMPTIONS)
        if self._load.shape == "drifting":
            wave = math.sin(2 * math.pi * (self.at + self._phase) / DRIFT_SECONDS)
            return _Moment(
                math.exp(DRIFT_RATE * wave),
                math.exp(DRIFT_TTFT * wave),
                math.exp(DRIFT_TPOT * wave),
                math.exp(wave),
            )
        return _Moment()


def _walk(random: Random, value: float) -> float:
    """Return the next of a row of values that keep most of the last one; variance 1."""
    return OWN_MEMORY * value + math.sqrt(1 - OWN_MEMORY**2) * random.gauss(0, 1)


def _below(bounds: Sequence[float], middle: float, spread: float) -> list[float]:
    """Return the share of lognormal times that is below each bound."""
    offset = math.log(middle)
    return [_share((log - offset) / spread) for log in _LOGS[bounds]]


def _share(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


_LOGS: Mapping[Sequence[float], list[float]] = {
    bounds: [math.log(bound) for bound in bounds] for bounds in (TTFT_BOUNDS, TPOT_BOUNDS)
}
