"""A pool under load, simulated: what the loop's shares do to it, and what Prometheus sees of it."""

import itertools
import math
import random
from dataclasses import dataclass, field

from tidegate.core.overload import queries
from tidegate.core.overload.signal import Sample

from .loops import BACKLOG, GONE, KV, START, TICK, Loop

_STEP_SECONDS = 0.1
BORNE_PER_SECOND = 10.0
"""Requests that a pool can bear, where their number matters."""


@dataclass
class KVCache:
    """Fills and empties as requests come and end: `lag_seconds` is how long one decodes.

    While more comes than it holds, the gates' queues fill; until they are empty it stays full.
    """

    lag_seconds: float = 15.0
    key = KV
    used: float = 0.0
    queued: float = 0.0

    def admit(self, load):
        """Let `load` times what the pool can bear come in for one step."""
        self.queued = min(5.0, max(0.0, self.queued + (load - 1) * _STEP_SECONDS))
        goal = 1.0 if self.queued else load
        self.used += (min(1.0, goal) - self.used) * _STEP_SECONDS / self.lag_seconds

    def told(self, noise):
        """Return what the engine tells."""
        return min(1.0, max(0.0, self.used * (1 + noise)))


@dataclass
class Queue:
    """Prompts that wait, in seconds of work; gates refuse what would wait for longer than is borne.

    With a low bound it is only ever full or empty; with a high one it is long for minutes.
    """

    key = BACKLOG
    waiting: float = 0.0
    longest_seconds: float = 5.0

    def admit(self, load):
        """Let `load` times what the pool can bear come in for one step."""
        waiting = max(0.0, self.waiting + (load - 1) * _STEP_SECONDS)
        self.waiting = min(self.longest_seconds, waiting)

    def told(self, noise):
        """Return what the gates tell."""
        return max(0.0, self.waiting + noise)


@dataclass
class Prompts:
    """A queue of single prompts: they come at random, and no two are as long."""

    key = BACKLOG
    waiting: float = 0.0
    mean_seconds: float = 0.1
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def admit(self, load):
        """Let `load` times what the pool can bear come in for one step."""
        self.waiting = max(0.0, self.waiting - _STEP_SECONDS)
        until = self.chance.expovariate(1.0)
        while until < load * _STEP_SECONDS / self.mean_seconds:
            until += self.chance.expovariate(1.0)
            if self.waiting < 5.0:
                self.waiting += self.chance.expovariate(1 / self.mean_seconds)

    def told(self, noise):
        """Return what the gates tell."""
        return max(0.0, self.waiting + noise)


@dataclass
class Run:
    """What came of a run: shares over time, with seconds since its start."""

    shares: list[tuple[float, int]] = field(default_factory=list)
    decisions: int = 0

    def turns(self, until):
        """Return the times at which the shares changed their direction."""
        moves = [
            (at, share - before)
            for (_, before), (at, share) in zip(self.shares, self.shares[1:], strict=False)
            if at < until
        ]
        return [at for (_, was), (at, move) in itertools.pairwise(moves) if was * move < 0]

    def between(self, begin, end):
        """Return the shares that held in a time."""
        before = [share for at, share in self.shares if at <= begin][-1:]
        return before + [share for at, share in self.shares if begin < at <= end]


@dataclass(frozen=True)
class World:
    """What is the case around a pool beside its load.

    Attributes:
        spared: Part of the requests that is of classes which are never shed.
        gap_from: From when on the other signal of the pool is unknown, seconds since the start.
    """

    spared: float = 0.0
    gap_from: float = math.inf


@dataclass
class Arrivals:
    """What gates count, and the rate that Prometheus makes of it."""

    window_seconds: float
    chance: random.Random
    total: float = 0.0
    scraped: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])

    def come(self, load):
        """Let requests arrive at random, for one step."""
        mean = load * BORNE_PER_SECOND * _STEP_SECONDS
        self.total += max(0.0, self.chance.gauss(mean, mean**0.5))

    def scrape(self, at):
        """Keep a sample of the counter."""
        self.scraped.append((at, self.total))
        while at - self.scraped[1][0] >= self.window_seconds:
            del self.scraped[0]

    def per_second(self):
        """Return what came in a second, over the window; less where that is not filled."""
        (_, first), (_, last) = self.scraped[0], self.scraped[-1]
        return (last - first) / self.window_seconds


def run(
    of, plant, load, tick=TICK, noise=0.0, seconds=1200, seed=0, is_rate_known=True, world=World()
):
    """Run a pool under `load(seconds)`, in parts of what it can bear, with the loop around it."""
    chance, loop, result = random.Random(seed), Loop(of, tick), Run(shares=[(0.0, 0)])
    sample, next_scrape, next_look = Sample(0.0, START), 0.0, 0.3
    window = queries.window_seconds(tick.scrape_interval_seconds)
    arrivals, admitted = (Arrivals(window, random.Random(seed)) for _ in range(2))
    other = KV if plant.key == BACKLOG else BACKLOG
    for step in range(int(seconds / _STEP_SECONDS)):
        at = step * _STEP_SECONDS
        comes = load(at) * max(world.spared, 1 - sum(loop.shares) / 100)
        plant.admit(comes)
        arrivals.come(load(at))
        admitted.come(comes)
        if at >= next_scrape:
            sample = Sample(plant.told(chance.gauss(0, noise)), START + at)
            arrivals.scrape(at)
            admitted.scrape(at)
            next_scrape += tick.scrape_interval_seconds
        if at >= next_look:
            next_look += tick.interval_seconds
            rates = [arrivals.per_second(), admitted.per_second()] if is_rate_known else [None] * 2
            seen = {plant.key: sample} | ({other: GONE} if at > world.gap_from else {})
            loop.look(seen, after=START + at - loop.now, offered=rates[0], admitted=rates[1])
            if sum(loop.shares) != result.shares[-1][1]:
                result.shares.append((at, sum(loop.shares)))
    result.decisions = len({id(seen) for seen in loop.seen})
    return result
