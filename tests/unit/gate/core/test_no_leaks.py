"""Whatever happens to a request, what it held is given back."""

import random
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import Limits
from tidegate.gate.exchange import Outcome, Refusal, Scrape, Seat, Shift, Surface, Usage, Why

POOLS = {False: ("unified",), True: ("prefill", "decode")}


class EveryWay(RuleBasedStateMachine):
    """Requests come, wait, leave, are seated, fail, are tried again, and end, in any order."""

    def __init__(self):
        super().__init__()
        self.seats = []
        self.waiting = []

    @initialize(
        is_pair=st.booleans(),
        max_queue=st.integers(0, 6),
        blocks=st.integers(10, 60),
        seqs=st.integers(1, 6),
        speed=st.sampled_from([None, 100.0, 10_000.0]),
        limit=st.sampled_from([None, 400]),
        declared=st.sampled_from([{}, {"time_to_first_token": "2s"}]),
    )
    def begin(self, is_pair, max_queue, blocks, seqs, speed, limit, declared):
        self.is_pair = is_pair
        self.gate = doubles.Gate(
            doubles.config(
                pair=is_pair,
                blocks=blocks,
                seqs=seqs,
                speed=speed,
                slo=doubles.Slo(**declared),
                limits=Limits(max_queue=max_queue, tenant_tokens_in_flight=limit),
            ),
            pods=2,
        )

    @rule(
        prompt=st.integers(1, 1200),
        limit=st.integers(0, 400),
        samples=st.integers(1, 3),
        prompts=st.integers(1, 3),
        tenant=st.sampled_from("ab"),
        priority=st.integers(0, 9),
        streams=st.booleans(),
        surface=st.sampled_from(
            [Surface.CHAT, Surface.RESPONSES, Surface.EMBEDDINGS, Surface.TOKENIZE]
        ),
    )
    def come(self, prompt, limit, samples, prompts, tenant, priority, streams, surface):
        asked = doubles.ask(
            prompt,
            limit,
            samples=samples * prompts,
            prompts=prompts,
            fewest_tokens=prompt // prompts,
            tenant=tenant,
            priority=priority,
            streams=streams,
            surface=surface,
        )
        self.waiting.append(self.gate.ask_for(asked))
        self.collect()

    def collect(self):
        still = []
        for decided, ticket in self.waiting:
            assert len(decided) <= 1
            if not decided:
                still.append((decided, ticket))
            elif isinstance(decided[0], Seat):
                self.seats.append(decided[0])
            else:
                assert isinstance(decided[0], Refusal | Shift)
        self.waiting = still

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 99))
    def leave_the_queue(self, which):
        decided, ticket = self.waiting.pop(which % len(self.waiting))
        ticket.leave(self.gate.now)
        ticket.leave(self.gate.now)
        assert not decided
        self.collect()

    @precondition(lambda self: self.seats)
    @rule(
        which=st.integers(0, 99),
        does=st.sampled_from(["sent", "prefilled", "first_token", "produced"]),
        tokens=st.integers(1, 300),
    )
    def go_on(self, which, does, tokens):
        seat = self.seats[which % len(self.seats)]
        more = (tokens,) if does == "produced" else ()
        getattr(self.gate.core, does)(seat, *more, self.gate.now)
        self.collect()

    @precondition(lambda self: self.seats)
    @rule(
        which=st.integers(0, 99),
        outcome=st.sampled_from(list(Outcome)),
        usage=st.none() | st.builds(Usage, st.integers(0, 2000), st.integers(0, 400)),
    )
    def end(self, which, outcome, usage):
        seat = self.seats.pop(which % len(self.seats))
        self.gate.end(seat, outcome, usage)
        self.gate.end(seat, Outcome.CLIENT_GONE)
        self.collect()

    @precondition(lambda self: self.seats)
    @rule(
        which=st.integers(0, 99),
        outcome=st.sampled_from(
            [Outcome.UNREACHABLE, Outcome.ENGINE_FULL, Outcome.ENGINE_FAILED, Outcome.DEADLINE]
        ),
        at_prefill=st.booleans(),
    )
    def try_again(self, which, outcome, at_prefill):
        seat = self.seats.pop(which % len(self.seats))
        failed = seat.prefill if at_prefill and seat.prefill else seat.pod
        fresh = self.gate.core.again(seat, failed, outcome, self.gate.now)
        if isinstance(fresh, Seat):
            assert failed.name not in (fresh.pod.name, fresh.prefill and fresh.prefill.name)
            self.seats.append(fresh)
        self.collect()

    @rule(names=st.sets(st.integers(0, 3)), which=st.integers(0, 1))
    def pods_change(self, names, which):
        pools = POOLS[self.is_pair]
        pool = pools[which % len(pools)]
        pods = [doubles.pod(f"{pool[0]}{name}", pool) for name in sorted(names)]
        self.gate.core.endpoints(pool, pods, self.gate.now)
        self.collect()

    @rule(count=st.integers(1, 4))
    def gates_change(self, count):
        self.gate.core.gates(count)

    @rule(
        name=st.sampled_from(["u0", "d0", "p1", "gone"]),
        usage=st.none() | st.floats(),
        blocks=st.none() | st.integers(0, 80),
    )
    def scrape(self, name, usage, blocks):
        scrape = Scrape(at=self.gate.now, kv_usage=usage, num_gpu_blocks=blocks)
        self.gate.core.observe(name, scrape)

    @rule(seconds=st.floats(0.01, 8))
    def time_passes(self, seconds):
        self.gate.wait(seconds, step=seconds)
        self.collect()

    @rule(blocks=st.integers(10, 60))
    def the_plan_changes(self, blocks):
        changed = doubles.config(pair=self.is_pair, blocks=blocks)
        self.gate.core.configure(changed, self.gate.now)
        self.collect()

    @invariant()
    def nothing_is_negative(self):
        if not hasattr(self, "gate"):
            return
        for page in self.gate.view().pods:
            held = (page.reserved_tokens, page.reserved_blocks, page.seated)
            assert min(*held, page.prefill_backlog_tokens) >= 0

    def teardown(self):
        if not hasattr(self, "gate"):
            return
        for _ in range(1000):
            for seat in self.seats:
                self.gate.end(seat, Outcome.FINISHED, Usage(1, 1))
            self.seats.clear()
            self.collect()
            self.gate.wait(10, step=10)
            self.collect()
            if not (self.seats or self.waiting):
                break
        assert not self.waiting
        assert self.gate.view().queued == 0
        for page in self.gate.view().pods:
            assert_empty(page)


def assert_empty(page):
    assert (page.reserved_tokens, page.reserved_blocks, page.seated) == (0, 0, 0)
    assert page.prefill_backlog_tokens == 0


TestEveryWay = EveryWay.TestCase
TestEveryWay.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=timedelta(seconds=5)
)


@pytest.mark.parametrize(("is_pair", "requests"), [(False, 100_000), (True, 20_000)])
def test_after_so_many_requests_nothing_is_held(is_pair, requests):
    dice = random.Random(7)
    settled = doubles.config(
        pair=is_pair, blocks=400, seqs=32, speed=20_000.0, limits=Limits(max_queue=20)
    )
    gate = doubles.Gate(settled, pods=4)
    gate.core.configure(settled, 0.0)
    seats, answers = [], {"seats": 0, "refusals": 0}

    def decided(answer):
        if isinstance(answer, Seat):
            seats.append(answer)
            answers["seats"] += 1
        else:
            answers["refusals"] += 1

    outcomes = list(Outcome)
    asks = [
        doubles.ask(dice.randint(1, 900), 300, tenant=f"t{n % 5}", priority=n % 10)
        for n in range(100)
    ]
    for number in range(requests):
        gate.now += 0.002
        ticket = gate.core.ask(asks[number % 100], gate.now, gate.now, decided)
        if number % 17 == 0:
            ticket.leave(gate.now)
        if number % 25 == 0:
            gate.core.tick(gate.now, gate.now)
        while len(seats) > 60 or (seats and dice.random() < 0.6):
            seat = seats.pop(dice.randrange(len(seats)))
            if number % 3:
                gate.core.prefilled(seat, gate.now)
                gate.core.first_token(seat, gate.now)
                gate.core.produced(seat, dice.randint(1, 400), gate.now)
            gate.end(seat, dice.choice(outcomes), Usage(100, dice.randint(1, 300)))
    while seats:
        gate.end(seats.pop(), Outcome.CLIENT_GONE)
    gate.wait(10, step=1)
    while seats:
        gate.end(seats.pop(), Outcome.CLIENT_GONE)
    assert min(answers.values()) > requests // 10, "the run should both seat and refuse"
    assert gate.view().queued == 0
    for page in gate.view().pods:
        assert_empty(page)


def test_a_pod_that_goes_with_requests_on_it_takes_its_book_along_when_they_end():
    gate = doubles.Gate()
    seat = gate.seat(100)
    gate.core.endpoints("unified", [], gate.now)
    assert gate.book().seated == 1
    (refusal,) = gate.ask(100)
    assert refusal.why is Why.NO_ENDPOINTS
    gate.end(seat, Outcome.ENGINE_FAILED)
    assert gate.view().pods == []
