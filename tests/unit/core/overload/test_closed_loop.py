"""The loop around a pool whose data are late: it comes to rest, and lets go by itself.

The pools are models; bench/ has the real engines.
"""

import functools
import itertools
import random

import pytest

from tidegate.core.overload.decision import Tick

from . import pair
from .loops import spec
from .plant import KVCache, Prompts, Queue, World, run

BEGIN, END, REST, BEAT = 60.0, 660.0, 300.0, 60.0
SHED = {"actions": ["Shed"], "enterAfter": "10s"}
TICKS = [Tick(1, 1), Tick(5, 5), Tick(5, 15)]
OFF = 0.3
PLANTS = {
    "KV cache": KVCache,
    "queue that is full or empty": Queue,
    "queue that is long for minutes": lambda: Queue(longest_seconds=30.0),
}
each_tick = pytest.mark.parametrize(
    "tick", TICKS, ids=lambda tick: f"scrape {tick.scrape_interval_seconds}"
)
each_plant = pytest.mark.parametrize("plant", PLANTS)
each_load = pytest.mark.parametrize("load", [1.5, 2.0, 3.0])


def burst(load):
    return lambda at: load if BEGIN < at < END else OFF


def beats(load):
    """Return a load that comes and goes by the minute."""
    return lambda at: burst(load)(at) if (at - BEGIN) // BEAT % 2 == 0 else OFF


@functools.cache
def ran(plant, comes, load, tick):
    """Return the run of a load; each is looked at from several sides."""
    return run(spec(**SHED), PLANTS[plant](), comes(load), tick)


@each_tick
@each_plant
@each_load
def test_under_a_load_that_stays_the_share_turns_once_and_never_again(load, plant, tick):
    """It rises until the load is borne, and goes back to what is known to be enough."""
    result = ran(plant, burst, load, tick)

    assert len(result.turns(END)) <= 1
    assert min(result.between(BEGIN + REST, END)) > 0


@each_tick
@each_plant
@each_load
def test_a_load_that_comes_and_goes_by_the_minute_turns_it_once_a_beat_at_most(load, plant, tick):
    result = ran(plant, beats, load, tick)

    assert len(result.turns(END)) <= (END - BEGIN) / (2 * BEAT)


@each_tick
@each_plant
@each_load
@pytest.mark.parametrize("comes", [burst, beats], ids=["stays", "beats"])
def test_it_lets_go_within_six_minutes_of_the_end_of_the_load(comes, load, plant, tick):
    at, share = ran(plant, comes, load, tick).shares[-1]

    assert share == 0
    assert at - END <= 300 + 4 * tick.scrape_interval_seconds


@each_tick
@each_plant
@each_load
def test_half_of_what_the_pool_bears_is_let_in_at_least_and_no_more_than_all(load, plant, tick):
    (*_, share) = ran(plant, burst, load, tick).between(BEGIN + REST, END)

    assert 0.5 <= load * (1 - share / 100) <= 1


@each_tick
@pytest.mark.parametrize("seed", range(3))
@each_load
def test_prompts_that_come_at_random_turn_it_rarely(load, seed, tick):
    """Their queue is long by chance now and then, however much is shed."""
    plant = Prompts(chance=random.Random(seed))
    result = run(spec(**SHED), plant, burst(load), tick, seed=seed)

    assert len(result.turns(END)) <= 2
    assert result.shares[-1][1] == 0


@each_tick
@each_load
def test_without_the_rate_of_requests_a_queue_is_tried_ever_more_rarely(load, tick):
    """Nothing tells then that the load is still there, so the loop must try; it must not flap."""
    result = run(spec(**SHED), Queue(), burst(load), tick, is_rate_known=False)

    assert len(result.turns(END)) <= 8
    assert result.shares[-1][1] == 0, "and it lets go once the load is gone"


@pytest.mark.parametrize("seed", range(3))
@each_tick
def test_noise_of_five_percent_does_not_make_it_flap(tick, seed):
    result = run(spec(**SHED), KVCache(), burst(3.0), tick, noise=0.05, seed=seed)

    assert len(result.turns(END)) <= 3


@each_tick
def test_the_first_share_is_shed_within_a_scrape_and_a_tick_of_the_threshold(tick):
    plant, crossed = Queue(), []

    def load(at):
        if plant.waiting >= 2.0:
            crossed.append(at)
        return 3.0 if at > BEGIN else OFF

    result = run(spec(actions=["Shed"], enterAfter="0s"), plant, load, tick, seconds=120)

    first = result.shares[1][0]
    assert first - crossed[0] <= tick.scrape_interval_seconds + tick.interval_seconds


def test_a_load_that_stays_within_bounds_is_never_touched():
    result = run(spec(**SHED), KVCache(), lambda at: 0.75, noise=0.05)

    assert result.shares == [(0.0, 0)]
    assert result.decisions == 1, "and nothing is written"


OTHERS = {
    "KV cache": pair.cache,
    "queue that is full or empty": Queue,
    "queue that is long for minutes": lambda: Queue(longest_seconds=30.0),
}
each_pair = pytest.mark.parametrize("plant", OTHERS)
each_own = pytest.mark.parametrize("own", [0.05, 0.2, 0.35, 0.8, 1.3])


@functools.cache
def shifted(plant, own, load, tick, seed):
    """Return the shares of two pools, of which one may shift to the other."""
    return pair.shares(load, own, tick, OTHERS[plant], seed=seed)


@each_tick
@each_pair
@each_own
@pytest.mark.parametrize(("load", "seed"), [(1.5, 0), (3.0, 0), (3.0, 1)])
def test_what_is_shifted_turns_twice_at_most_in_ten_minutes_whatever_the_other_carries(
    plant, own, load, seed, tick
):
    """Each time it goes to and fro the prefix caches of both sides are worth less."""
    steps = moves(shift for _, _, shift, _ in shifted(plant, own, load, tick, seed))

    assert sum(one * other < 0 for one, other in itertools.pairwise(steps)) <= 2


@each_tick
@each_pair
@each_own
def test_nothing_more_is_shifted_to_one_that_turns_its_own_requests_away(plant, own, tick):
    found = shifted(plant, own, 3.0, tick, 0)

    grown = [at for (_, _, was, shed), (at, _, is_now, _) in itertools.pairwise(found)
             if is_now > was and shed]  # fmt: skip
    assert grown == []


@each_tick
@each_pair
def test_one_that_carries_little_is_sent_what_it_bears(plant, tick):
    """Of three times what a pool bears a sixth is half of a pool at least."""
    found = shifted(plant, 0.05, 3.0, tick, 0)

    assert max(shift for _, _, shift, _ in found) >= 10
    assert found[-1][2] >= 4


def moves(shares):
    """Return the steps of a share."""
    return [after - before for before, after in itertools.pairwise(shares) if after != before]


# what cannot be shed, and what is not known


@each_tick
@pytest.mark.parametrize("spared", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("after", [OFF, 0.6])
def test_shares_go_back_where_most_requests_are_of_classes_that_are_never_shed(after, spared, tick):
    """What is kept out is less than the share then: a calm cache holds nearly all that comes."""

    def load(at):
        return OFF if at < BEGIN else 1.6 if at < END else after

    made = run(spec(**SHED), KVCache(), load, tick, seconds=1400, world=World(spared=spared))

    at, share = made.shares[-1]
    assert max(share for _, share in made.shares) > 100 - 100 * spared, "more than can be"
    assert share == 0
    assert at - END <= 300 + 6 * tick.scrape_interval_seconds


@each_tick
@each_plant
@pytest.mark.parametrize("policy", ["Hold", "StaticCap"])
def test_a_signal_that_is_gone_for_long_leaves_the_other_one_to_decide(policy, plant, tick):
    """The signal that is over is known all the time."""
    of = spec(**SHED, onMissingMetrics=policy, holdFor="60s")
    made = run(of, PLANTS[plant](), lambda at: 2.0, tick, seconds=1260, world=World(gap_from=90.0))

    assert len(made.turns(1260)) <= 5
    assert min(made.between(BEGIN + REST, 1260)) > 0
