"""What the gate is for: at several times the load that pods can bear, who is served is in time.

Small simulated pods (see simulation.py), open-loop arrivals, a TTFT of 0.7 s declared. The rival
is the best fixed cap on concurrency for each run, chosen with hindsight.
"""

import random
from functools import cache

import pytest
from tests.unit.gate import simulation as sim

from tidegate.api.gate_config import Slo
from tidegate.gate.exchange import Seat

SECONDS = 40
SLO_SECONDS = 0.7
SLO = Slo(time_to_first_token="700ms")
CAPS = (4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
A = sim.Mix(300, 120)
B = sim.Mix(900, 60)
LIAR = sim.Mix(300, 50, asks=32_000)
LARGE_KV = sim.Engine(kv_blocks=4080)


def steady(*mixes, rate):
    return lambda seed: sim.poisson([(mix, 1) for mix in mixes], rate, SECONDS, seed)


def shifting(seed):
    half = SECONDS / 2
    return [
        *sim.poisson([(A, 1)], 9, half, seed),
        *sim.poisson([(B, 1)], 4.5, half, seed + 1, start=half),
    ]


def bursts(seed):
    return [
        request
        for start in range(0, SECONDS, 10)
        for request in sim.poisson([(A, 1)], 25, 3, seed + start, start=float(start))
    ]


SCENARIOS = {
    "mix A at its capacity": (steady(A, rate=3), sim.Engine(), 1),
    "mix A at 3x": (steady(A, rate=9), sim.Engine(), 1),
    "mix B at 3x": (steady(B, rate=4.5), sim.Engine(), 1),
    "both mixes at 3x": (steady(A, B, rate=7), sim.Engine(), 1),
    "mix A at 3x with 8 times the KV": (steady(A, rate=12), LARGE_KV, 1),
    "mix A at 3x on four pods": (steady(A, rate=36), sim.Engine(), 4),
    "from A to B in mid-run": (shifting, sim.Engine(), 1),
    "bursts of mix A": (bursts, sim.Engine(), 1),
    "liars who ask for 32k and use 50": (steady(LIAR, rate=10), sim.Engine(), 1),
}

LATE_SHARES = {"bursts of mix A": 0.1}
"""A burst onto idle pods is prefilled at a speed that falls as its answers begin."""


@cache
def scores(name, seed=1):
    arrivals, engine, pods = SCENARIOS[name]

    def score(policy):
        return sim.run(policy, arrivals(seed), SECONDS, slo=SLO_SECONDS, engine=engine, pods=pods)

    return score(sim.Gated(SLO)), [score(sim.Open(cap)) for cap in CAPS], score(sim.Open())


@pytest.mark.parametrize("name", SCENARIOS)
def test_goodput_is_no_less_than_any_fixed_cap_reached(name):
    gated, capped, _ = scores(name)
    assert gated.requests >= 0.95 * max(score.requests for score in capped)
    assert gated.tokens >= 0.95 * max(score.tokens for score in capped)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_engines_do_not_preempt(name):
    gated, _, none = scores(name)
    assert gated.preemptions <= 0.01 * gated.admitted
    assert gated.preemptions <= none.preemptions


@pytest.mark.parametrize("name", SCENARIOS)
def test_who_is_served_is_served_in_time(name):
    gated, _, _ = scores(name)
    assert gated.late_share <= LATE_SHARES.get(name, 0.05)


@pytest.mark.parametrize("name", SCENARIOS)
def test_most_of_those_who_are_not_served_learn_it_at_once(name):
    gated, _, _ = scores(name)
    assert gated.slow_refusals <= 0.2


@pytest.mark.parametrize("name", ["mix A at 3x", "mix A at 3x with 8 times the KV"])
def test_without_a_gate_it_is_lost(name):
    gated, _, none = scores(name)
    assert none.requests < 0.3 * gated.requests


def test_an_slo_that_is_learned_protects_as_well():
    arrivals, engine, pods = SCENARIOS["mix A at 3x"]
    learned = sim.run(sim.Gated(), arrivals(1), SECONDS, slo=SLO_SECONDS, engine=engine, pods=pods)
    assert learned.requests >= 0.9 * scores("mix A at 3x")[0].requests
    assert learned.preemptions <= 1


def served_share(world, of):
    asked = [request for request in world.requests if of(request)]
    return sum(request.ended_at is not None for request in asked) / len(asked)


def overloaded(mixes, rate, seed=3):
    arrivals = sim.poisson([(mix, 1) for mix in mixes], rate, SECONDS, seed)
    return sim.World(sim.Gated(SLO), arrivals).run(SECONDS + 60)


def test_long_prompts_are_served_under_a_flood_of_short_ones():
    short, long = sim.Mix(100, 60, spread=0.3), sim.Mix(1200, 100, spread=0.2)
    arrivals = sim.poisson([(short, 12), (long, 1)], 16, SECONDS, 3)
    world = sim.World(sim.Gated(SLO), arrivals).run(SECONDS + 60)
    shares = {
        mix: served_share(world, lambda request, mix=mix: request.mix is mix)
        for mix in (short, long)
    }
    assert shares[long] >= 0.25 * shares[short]


def test_the_higher_class_is_served_before_the_lower():
    low, high = sim.Mix(300, 120, priority=1), sim.Mix(300, 120, priority=8)
    world = overloaded([low, low, high], rate=9)
    assert served_share(world, lambda request: request.mix is high) >= 1.5 * served_share(
        world, lambda request: request.mix is low
    )


def test_a_flood_does_not_take_the_share_of_another_tenant():
    flood, other = sim.Mix(300, 120, tenant="flood"), sim.Mix(300, 120, tenant="other")
    arrivals = sim.poisson([(flood, 8), (other, 1)], 9, SECONDS, 3)
    world = sim.World(sim.Gated(SLO), arrivals).run(SECONDS + 60)
    assert served_share(world, lambda request: request.mix is other) >= 1.2 * served_share(
        world, lambda request: request.mix is flood
    )


def returning(rate, after_seconds=None):
    policy = sim.Returning(SLO, after_seconds=after_seconds)
    world = sim.World(policy, sim.poisson([(A, 1)], rate, SECONDS, 7)).run(SECONDS + 60)
    served = sum(request.ended_at is not None for request in world.requests)
    return served, policy.attempts.total() / len(world.requests)


@pytest.mark.parametrize("rate", [6, 9])
def test_clients_who_come_back_when_told_try_seldom_and_no_fewer_are_served(rate):
    served, attempts = returning(rate)
    served_at_once, attempts_at_once = returning(rate, after_seconds=1)

    assert attempts <= 3
    assert attempts <= 0.7 * attempts_at_once
    assert served >= 0.95 * served_at_once


def test_clients_that_leave_free_their_room():
    """Half of the clients hang up after a while, as in life; nothing is held for them."""
    dice = random.Random(5)
    policy = sim.Gated(SLO)
    world = sim.World(policy, sim.poisson([(A, 1)], 9, SECONDS, 5))
    for request in world.requests:
        if dice.random() < 0.5:
            world.hang_up(request, request.arrived + dice.uniform(0.0, 3.0))
    world.run(SECONDS + 60)
    assert all(page.reserved_tokens == 0 for page in policy.view(world).pods)
    assert policy.view(world).queued == 0
    assert any(isinstance(request.seat, Seat) and request.has_left for request in world.requests)
