"""The loop around a pool whose data are late: it comes to rest, and lets go by itself.

The pools are models; bench/ has the real engines.
"""

import pytest

from tidegate.core.overload.decision import Tick

from .loops import spec
from .plant import KVCache, Queue, run

BEGIN, END, REST = 60.0, 660.0, 300.0
SHED = {"actions": ["Shed"], "enterAfter": "10s"}
TICKS = [Tick(1, 1), Tick(5, 5), Tick(5, 15)]
LOADS = [1.2, 1.5, 3.0, 10.0]
OFF = 0.3


def burst(load):
    return lambda at: load if BEGIN < at < END else OFF


@pytest.mark.parametrize("tick", TICKS, ids=lambda tick: f"scrape {tick.scrape_interval_seconds}")
@pytest.mark.parametrize("load", LOADS)
def test_a_full_kv_cache_brings_the_shares_to_rest(load, tick):
    result = run(spec(**SHED), KVCache(), burst(load), tick)

    assert len(result.turns(END)) <= 3
    assert min(result.between(BEGIN + REST, END)) > 0
    assert result.shares[-1][1] == 0, "and it lets go once the load is gone"


@pytest.mark.parametrize("tick", TICKS, ids=lambda tick: f"scrape {tick.scrape_interval_seconds}")
@pytest.mark.parametrize("load", LOADS)
def test_a_queue_that_is_either_empty_or_full_is_tried_ever_more_rarely(load, tick):
    """Such a signal cannot tell how much is too much, so the loop must try; it must not flap."""
    result = run(spec(**SHED), Queue(), burst(load), tick)

    assert len(result.turns(END)) <= 10
    assert len(result.turns(END)) - len(result.turns(BEGIN + REST)) <= 6
    assert result.shares[-1][1] == 0, "and it lets go once the load is gone"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tick", TICKS, ids=lambda tick: f"scrape {tick.scrape_interval_seconds}")
def test_noise_of_five_percent_does_not_make_it_flap(tick, seed):
    result = run(spec(**SHED), KVCache(), burst(3.0), tick, noise=0.05, seed=seed)

    assert len(result.turns(END)) <= 8


@pytest.mark.parametrize("tick", TICKS, ids=lambda tick: f"scrape {tick.scrape_interval_seconds}")
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
