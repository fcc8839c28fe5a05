"""A small world to try the gate in: open-loop clients, and pods that work as vLLM does.

A pod works in steps. In each, every running request gets one token, and the rest of the step's
token budget goes to prompts in order of arrival. A request holds KV blocks for what it has; when
one needs a block and none is free, the request that started last is thrown out, and starts anew
from its prompt and what it had made. Everything is drawn from one seed, so a run repeats.
"""

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.unit.gate.core import doubles

from tidegate.api.gate_config import Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice
from tidegate.gate.exchange import Outcome, Scrape, Seat, Usage

TICK_SECONDS = 0.05
SCRAPE_SECONDS = 0.5


@dataclass(frozen=True)
class Engine:
    """How a pod works: the figures of a real CPU engine with a tiny model."""

    kv_blocks: int = 510
    block_tokens: int = 16
    max_num_seqs: int = 128
    batch_tokens: int = 2048
    step_seconds: float = 0.028
    decode_seconds: float = 0.0006
    prefill_seconds: float = 0.00037


@dataclass(frozen=True)
class Mix:
    """Lognormal lengths with these means."""

    prompt: float
    output: float
    spread: float = 0.6
    asks: int = 4000
    priority: int = 5
    tenant: str = "t"

    def draw(self, dice):
        def length(mean):
            centre = mean / 2.718281828 ** (self.spread**2 / 2)
            return max(1, min(self.asks, round(centre * dice.lognormvariate(0, self.spread))))

        return length(self.prompt), length(self.output)


@dataclass(eq=False)
class Request:
    """One request and what became of it."""

    number: int
    arrived: float
    prompt: int
    output: int
    mix: Mix
    seat: Seat | None = None
    refused: object = None
    decided_at: float | None = None
    first_at: float | None = None
    ended_at: float | None = None
    made: int = 0
    todo: int = 0  # tokens that are to be prefilled yet
    held: int = 0  # blocks
    has_left: bool = False
    ticket: object = None

    @property
    def tokens(self):
        return self.prompt + self.output


@dataclass
class PodModel:
    """One pod at work."""

    engine: Engine
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    free: int = 0
    preemptions: int = 0
    is_stepping: bool = False

    def __post_init__(self):
        self.free = self.engine.kv_blocks

    def take(self, request):
        request.todo = request.prompt
        self.waiting.append(request)

    def step(self):
        """Plan one step; return its length and who got a token by it."""
        engine, fed, prompt_tokens = self.engine, [], 0
        for request in list(self.running):
            if request in self.running and not request.todo and self._grow(request, 1):
                fed.append(request)
        fed = [request for request in fed if request in self.running]
        budget = engine.batch_tokens - len(fed)
        for request in list(self.running):
            if request.todo and budget > 0:
                chunk = min(budget, request.todo)
                request.todo -= chunk
                budget -= chunk
                prompt_tokens += chunk
                if not request.todo:
                    fed.append(request)
        while self.waiting and budget > 0 and len(self.running) < engine.max_num_seqs:
            request = self.waiting[0]
            needed = -(-(request.todo + 1) // engine.block_tokens)
            if needed > self.free:
                break
            self.waiting.pop(0)
            self.free -= needed
            request.held = needed
            self.running.append(request)
            chunk = min(budget, request.todo)
            request.todo -= chunk
            budget -= chunk
            prompt_tokens += chunk
            if not request.todo:
                fed.append(request)
        seconds = (
            engine.step_seconds
            + engine.decode_seconds * len(fed)
            + engine.prefill_seconds * prompt_tokens
        )
        return seconds, fed

    def metrics(self, now):
        """What a scrape would tell."""
        blocks = self.engine.kv_blocks
        return Scrape(
            at=now,
            kv_usage=(blocks - self.free) / blocks,
            num_gpu_blocks=blocks + 1,
            running=len(self.running),
            waiting=len(self.waiting),
            preemptions=float(self.preemptions),
        )

    def _grow(self, request, tokens):
        needed = -(-(request.prompt + request.made + tokens) // self.engine.block_tokens)
        while needed > request.held:
            if self.free:
                self.free -= 1
                request.held += 1
                continue
            victim = self.running[-1]
            self.preemptions += 1
            self.leave(victim)
            victim.todo = victim.prompt + victim.made
            self.waiting.insert(0, victim)
            if victim is request:
                return False
        return True

    def leave(self, request):
        self.free += request.held
        request.held = 0
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)


class Open:
    """No gate: everything goes to the pod with the fewest requests."""

    def __init__(self, cap=None):
        self.cap = cap
        self.inside = {}

    def start(self, world):
        self.inside = {name: 0 for name in world.pods}

    def arrive(self, world, request):
        name = min(self.inside, key=self.inside.get)
        if self.cap is not None and self.inside[name] >= self.cap:
            request.refused = "cap"
            request.decided_at = world.now
            return
        self.inside[name] += 1
        world.send(request, name)

    def produced(self, world, request, name, tokens):
        pass

    def ended(self, world, request, name):
        self.inside[name] -= 1

    def tick(self, world):
        pass


class Gated:
    """The gate's own core in front of the pods."""

    def __init__(self, slo=None, **settings):
        self.slo = slo or Slo()
        self._scrapes_at = 0.0
        self.settings = settings
        self.core = Admissions(jitter=random.Random(1).random, choice=Choice())

    def start(self, world):
        engine = world.engine
        settings = {"headroom": 0.95, **self.settings}
        config = doubles.config(
            blocks=engine.kv_blocks,
            block_tokens=engine.block_tokens,
            seqs=engine.max_num_seqs,
            slo=self.slo,
            **settings,
        )
        self.core.configure(config, world.now)
        self.core.endpoints("unified", [doubles.pod(name) for name in world.pods], world.now)

    def arrive(self, world, request):
        mix = request.mix
        asked = doubles.ask(request.prompt, mix.asks, tenant=mix.tenant, priority=mix.priority)

        def decided(answer):
            request.decided_at = world.now
            if isinstance(answer, Seat):
                request.seat = answer
                self.core.sent(answer, world.now)
                world.send(request, answer.pod.name)
            else:
                request.refused = answer

        request.ticket = self.core.ask(asked, world.now, world.now, decided)

    def left(self, world, request):
        if request.seat is not None:
            self.core.ended(request.seat, Outcome.CLIENT_GONE, None, world.now)
        else:
            request.ticket.leave(world.now)

    def view(self, world):
        return self.core.view(world.now, world.now)

    def produced(self, world, request, name, tokens):
        if request.made == tokens:
            self.core.first_token(request.seat, world.now)
        self.core.produced(request.seat, tokens, world.now)

    def ended(self, world, request, name):
        usage = Usage(request.prompt, request.made)
        self.core.ended(request.seat, Outcome.FINISHED, usage, world.now)

    def tick(self, world):
        self.core.tick(world.now, world.now)
        if world.now >= self._scrapes_at:
            self._scrapes_at = world.now + SCRAPE_SECONDS
            for name, pod in world.pods.items():
                self.core.observe(name, pod.metrics(world.now))


class Returning(Gated):
    """The gate before clients who come back when they were told to, a few times each.

    With `after_seconds` they come back then, whatever they were told.
    """

    def __init__(self, slo=None, *, attempts=8, after_seconds=None):
        super().__init__(slo)
        self.attempts = Counter()
        self._most = attempts
        self._after_seconds = after_seconds

    def arrive(self, world, request):
        self.attempts[request.number] += 1
        super().arrive(world, request)
        self._look(world, request)

    def _look(self, world, request):
        told = request.refused
        if told is not None and self.attempts[request.number] < self._most:
            request.refused = None
            seconds = self._after_seconds or told.retry_after_seconds
            world.later(seconds, lambda: self.arrive(world, request))
        elif told is None and request.seat is None:  # it waits in the gate
            world.later(TICK_SECONDS, lambda: self._look(world, request))


class World:
    """Runs one policy against one stream of arrivals."""

    def __init__(self, policy, arrivals, *, engine=None, pods=1):
        self.engine = engine or Engine()
        self.policy = policy
        self.now = 0.0
        self.pods = {f"u{number}": PodModel(self.engine) for number in range(pods)}
        self.requests = list(arrivals)
        self._events = []
        self._order = itertools.count()
        self._next_tick = TICK_SECONDS
        for request in self.requests:
            self._at(request.arrived, lambda request=request: policy.arrive(self, request))
        policy.start(self)

    def _at(self, when, act):
        heapq.heappush(self._events, (when, next(self._order), act))

    def later(self, seconds, act):
        """Do something after a while."""
        self._at(self.now + seconds, act)

    def send(self, request, name):
        request.decided_at = self.now
        self.pods[name].take(request)
        self._wake(name)

    def hang_up(self, request, when):
        """Let a client leave then, if its answer is not whole by that time."""
        self._at(when, lambda: self._hung_up(request))

    def _hung_up(self, request):
        if request.ended_at is not None or request.refused is not None:
            return
        request.has_left = True
        for pod in self.pods.values():
            pod.leave(request)
        self.policy.left(self, request)

    def _wake(self, name):
        pod = self.pods[name]
        if pod.is_stepping or not (pod.running or pod.waiting):
            return
        pod.is_stepping = True
        seconds, fed = pod.step()
        self._at(self.now + seconds, lambda: self._stepped(name, fed))

    def _stepped(self, name, fed):
        pod = self.pods[name]
        pod.is_stepping = False
        for request in fed:
            if request.has_left:
                continue
            request.made += 1
            if request.first_at is None:
                request.first_at = self.now
            self.policy.produced(self, request, name, 1)
            if request.made >= request.output:
                pod.leave(request)
                request.ended_at = self.now
                self.policy.ended(self, request, name)
        self._wake(name)

    def run(self, until):
        while self._events and self._events[0][0] <= until:
            when, _, act = heapq.heappop(self._events)
            while self._next_tick <= when:
                self.now = self._next_tick
                self.policy.tick(self)
                self._next_tick += TICK_SECONDS
            self.now = when
            act()
        return self

    @property
    def preemptions(self):
        return sum(pod.preemptions for pod in self.pods.values())


@dataclass(frozen=True)
class Score:
    """What a run was worth, per second of its window.

    Late counts only those whose own prefill takes less than half of the SLO: others are late, or
    nearly, on an idle pod too.
    """

    requests: float
    tokens: float
    preemptions: int
    ttft_p99: float
    late_share: float
    admitted: int
    slow_refusals: float

    @classmethod
    def of(cls, world, window, slo):
        seen = [r for r in world.requests if r.first_at is not None]
        good = [r for r in seen if r.ended_at and r.first_at - r.arrived <= slo]
        longest = slo / 2 / world.engine.prefill_seconds
        ttft = sorted(r.first_at - r.arrived for r in seen if r.prompt <= longest)
        refused = [r for r in world.requests if r.refused is not None]
        slow = [r for r in refused if r.decided_at - r.arrived > 0.01]
        return cls(
            requests=len(good) / window,
            tokens=sum(r.tokens for r in good) / window,
            preemptions=world.preemptions,
            ttft_p99=ttft[int(0.99 * (len(ttft) - 1))] if ttft else 0.0,
            late_share=sum(t > slo for t in ttft) / max(1, len(ttft)),
            admitted=len(seen),
            slow_refusals=len(slow) / max(1, len(refused)),
        )


def poisson(mixes, rate, seconds, seed, start=0.0):
    """Arrivals of requests, each of one of the mixes by weight."""
    dice = random.Random(seed)
    kinds, weights = zip(*mixes, strict=True)
    now, made = start, []
    while (now := now + dice.expovariate(rate)) < start + seconds:
        mix = dice.choices(kinds, weights)[0]
        prompt, output = mix.draw(dice)
        made.append(Request(len(made), now, prompt, output, mix))
    return made


def run(policy, arrivals, seconds, *, slo, engine=None, pods=1):
    """Run to well after the last arrival; score what arrived."""
    world = World(policy, arrivals, engine=engine, pods=pods).run(seconds + 60)
    return Score.of(world, seconds, slo)
