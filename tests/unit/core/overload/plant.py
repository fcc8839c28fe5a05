"""A pool under load, simulated: what the loop's shares do to it, and what Prometheus sees of it."""

import itertools
import random
from dataclasses import dataclass, field

from tidegate.core.overload.signal import Sample

from .loops import BACKLOG, KV, START, TICK, Loop

_STEP_SECONDS = 0.1


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
    """Prompts that wait, in seconds of work; gates refuse what would wait longer than 5 s."""

    key = BACKLOG
    waiting: float = 0.0

    def admit(self, load):
        """Let `load` times what the pool can bear come in for one step."""
        self.waiting = min(5.0, max(0.0, self.waiting + (load - 1) * _STEP_SECONDS))

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


def run(of, plant, load, tick=TICK, noise=0.0, seconds=1200, seed=0):
    """Run a pool under `load(seconds)`, in parts of what it can bear, with the loop around it."""
    chance, loop, result = random.Random(seed), Loop(of, tick), Run(shares=[(0.0, 0)])
    sample, next_scrape, next_look = Sample(0.0, START), 0.0, 0.3
    for step in range(int(seconds / _STEP_SECONDS)):
        at = step * _STEP_SECONDS
        plant.admit(load(at) * (1 - sum(loop.shares) / 100))
        if at >= next_scrape:
            sample = Sample(plant.told(chance.gauss(0, noise)), START + at)
            next_scrape += tick.scrape_interval_seconds
        if at >= next_look:
            next_look += tick.interval_seconds
            loop.look(readings={plant.key: sample}, after=START + at - loop.now)
            if sum(loop.shares) != result.shares[-1][1]:
                result.shares.append((at, sum(loop.shares)))
    result.decisions = len({id(seen) for seen in loop.seen})
    return result
