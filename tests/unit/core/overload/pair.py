"""Two pools, simulated: one that shifts requests to another while both have their own loops."""

import random
from dataclasses import dataclass, field

from tidegate.core.overload import pressure
from tidegate.core.overload.decision import Headroom
from tidegate.core.overload.load import Load, spare_per_second
from tidegate.core.overload.signal import Sample

from .loops import START, Loop, spec
from .plant import BORNE_PER_SECOND, KVCache, Queue

_STEP_SECONDS = 0.1
_WINDOW_SECONDS = 60.0
_DECODES_SECONDS = 8.0
_GATES_LIMIT = 0.85
"""How full gates let an engine become."""
_CAPACITY_TOKENS = 1000.0
_THRESHOLDS = {"enterAfter": "0s", "kvUsage": {"enter": 0.6, "exit": 0.45}}
_NOISE, _NOISE_SECONDS = 0.1, 3.0
_RESERVED_BY_A_QUEUE = 0.3
"""Part of its tokens, by all that it bears: a prefill pool is full long before its cache is."""


@dataclass
class Pool:
    """A pool with gates before it, and what Prometheus knows of both."""

    loop: Loop
    chance: random.Random
    plant: KVCache | Queue
    noise: float = 0.0
    counted: list[tuple[float, float, float]] = field(default_factory=lambda: [(0.0, 0.0, 0.0)])
    came: float = 0.0
    let_in: float = 0.0
    reserved: float = 0.0
    sample: Sample = field(default_factory=lambda: Sample(0.0, START))

    def step(self, comes, admits):
        """Let so much come and so much of it in, in parts of what the pool can bear."""
        part = _STEP_SECONDS / _NOISE_SECONDS
        self.noise += self.chance.gauss(0, _NOISE) * (2 * part) ** 0.5 - self.noise * part
        gets = min(admits, self._gates_limit)
        self.plant.admit(gets if isinstance(self.plant, KVCache) else admits)
        self.reserved += (gets - self.reserved) * _STEP_SECONDS / _DECODES_SECONDS
        self.came += comes * BORNE_PER_SECOND * _STEP_SECONDS
        self.let_in += gets * BORNE_PER_SECOND * _STEP_SECONDS

    def scrape(self, at):
        """Take a sample of everything."""
        self.sample = Sample(self.plant.told(self.noise), START + at)
        self.counted.append((at, self.came, self.let_in))
        while len(self.counted) > 2 and at - self.counted[1][0] >= _WINDOW_SECONDS:
            del self.counted[0]

    @property
    def load(self):
        """Return what its gates tell; rates are means over a minute."""
        (began, came, let_in), (ended, *now) = self.counted[0], self.counted[-1]
        seconds = max(_WINDOW_SECONDS / 2, ended - began)
        capacity = _GATES_LIMIT * _CAPACITY_TOKENS
        if isinstance(self.plant, KVCache):
            reserved = self.sample.value * _CAPACITY_TOKENS
        else:
            reserved = self.reserved * _RESERVED_BY_A_QUEUE * capacity
        return Load((now[0] - came) / seconds, (now[1] - let_in) / seconds, reserved, capacity)

    @property
    def signals(self):
        """Return what its loop sees."""
        return {self.plant.key: self.sample}

    @property
    def _gates_limit(self):
        return _GATES_LIMIT if isinstance(self.plant, KVCache) else 1.0


def cache():
    """Return a KV cache whose requests decode for some seconds."""
    return KVCache(lag_seconds=_DECODES_SECONDS)


def shares(load, own, tick, plant=cache, seconds=660.0, seed=0):
    """Return times, shed and shift of a pool under `load`, and shed of one that has its `own`."""
    chance = random.Random(seed)
    to_other = {"actions": ["Shift", "Shed"], "shift": {"to": "other"}}
    one = Pool(Loop(spec(**_THRESHOLDS, **to_other), tick), chance, plant())
    other = Pool(Loop(spec(**_THRESHOLDS, actions=["Shed"]), tick), chance, plant())
    found, next_scrape, next_look = [(0.0, 0, 0, 0)], 0.0, 0.3
    for at in (number * _STEP_SECONDS for number in range(int(seconds / _STEP_SECONDS))):
        comes = load if at > 30 else 0.2
        shed, shift = one.loop.shares
        to = own + comes * shift / 100
        one.step(comes, comes * (100 - shed - shift) / 100)
        other.step(to, to * (100 - other.loop.shares[0]) / 100)
        if at >= next_scrape:
            next_scrape += tick.scrape_interval_seconds
            one.scrape(at)
            other.scrape(at)
        if at >= next_look:
            next_look += tick.interval_seconds
            _look(one, other, at)
            now = (*one.loop.shares, other.loop.shares[0])
            if found[-1][1:] != now:
                found.append((at, *now))
    return found


def _look(one, other, at):
    seen = pressure.read(other.loop.spec, other.signals)
    spare = spare_per_second(other.load, one.load, other.loop.spec.kv_usage.exit)
    headroom = Headroom(
        True,
        spare,
        one.load.requests_per_second,
        stands=seen.stands,
        shed_percent=other.loop.shares[0],
    )
    for pool, room in ((other, None), (one, headroom)):
        offered = pool.load.requests_per_second
        after = START + at - pool.loop.now
        pool.loop.look(pool.signals, headroom=room, after=after, offered=offered)
