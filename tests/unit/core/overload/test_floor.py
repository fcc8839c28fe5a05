"""How fast the loop can be, beside how fast the KV cache fills."""

from dataclasses import replace

import pytest

from tidegate.core.overload import floor
from tidegate.core.overload.decision import Tick

from .loops import spec
from .plans import PAIR, case

UNIFIED = case()


@pytest.mark.parametrize(
    ("tick", "seconds"), [(Tick(1, 1), 3.0), (Tick(5, 5), 11.0), (Tick(5, 15), 21.0)]
)
def test_the_floor_is_scrape_and_tick_and_write_and_watch(tick, seconds):
    assert floor.reaction(spec(), UNIFIED.plan, tick).floor_seconds == seconds


def test_the_fill_is_what_is_left_above_enter_at_the_plans_speed_of_prefill():
    (entry,) = UNIFIED.plan.slices
    found = floor.reaction(spec(kvUsage={"enter": 0.8, "exit": 0.7}), UNIFIED.plan, Tick(5, 5))

    left = 0.2 * entry.sizing.pool.cache_size_tokens
    assert found.fill_seconds == pytest.approx(left / entry.prefill_tokens_per_second)
    assert found.pool == "unified"


def test_decode_pods_are_filled_by_the_prefill_pods_together():
    pair = case(PAIR)
    prefill, decode = pair.plan.of_pool("prefill")[0], pair.plan.of_pool("decode")[0]
    found = floor.reaction(spec(), pair.plan, Tick(5, 5))

    each = prefill.prefill_tokens_per_second * prefill.replicas / decode.replicas
    assert found.fill_seconds == pytest.approx(0.1 * decode.sizing.pool.cache_size_tokens / each)
    assert found.pool == "decode"


def test_without_a_speed_of_prefill_nothing_is_said_of_the_fill():
    slices = tuple(replace(e, prefill_tokens_per_second=None) for e in UNIFIED.plan.slices)
    found = floor.reaction(spec(), replace(UNIFIED.plan, slices=slices), Tick(5, 5))
    shown = floor.status(spec(), found, Tick(5, 5))

    assert (found.fill_seconds, shown.fill_time) == (None, None)
    assert "is not known" in shown.message


@pytest.mark.parametrize(
    ("fill_seconds", "tick", "says"),
    [
        (30.0, Tick(5, 15), "The loop is the faster one."),
        (12.4, Tick(5, 15), "a scrape interval of 6 s would let the loop be in time"),
        (5.5, Tick(5, 15), "a scrape interval and a tick of 2 s would let the loop be in time"),
        (2.0, Tick(5, 15), "no scrape interval would let the loop be in time"),
    ],
)
def test_where_the_loop_is_slower_the_message_says_what_protects_and_what_would_help(
    fill_seconds, tick, says
):
    floor_seconds = tick.scrape_interval_seconds + tick.interval_seconds + 1
    found = floor.Reaction(floor_seconds, fill_seconds, "unified")

    message = floor.status(spec(), found, tick).message

    assert says in message
    assert ("token budget is what protects" in message) == (fill_seconds < floor_seconds)


def test_what_fills_at_once_is_not_said_to_take_no_time():
    message = floor.status(spec(), floor.Reaction(12.0, 0.02, "unified"), Tick(5, 15)).message

    assert "to full in less than 0.1s." in message


def test_what_would_help_does_help():
    (entry,) = UNIFIED.plan.slices
    assert entry.prefill_tokens_per_second
    found = floor.reaction(spec(), UNIFIED.plan, Tick(2, 2))

    assert found.floor_seconds <= found.fill_seconds
