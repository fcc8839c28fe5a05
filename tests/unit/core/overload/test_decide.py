"""What the loop does about a load, as the user who set the thresholds would put it."""

import itertools

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload.decide import DWELL_SECONDS
from tidegate.core.overload.signal import Sample, Signal

from .loops import KV, Loop, spec

SHED = {"actions": ["Shed"]}


def test_below_the_threshold_nothing_is_done_and_nothing_is_written():
    loop = Loop(spec(**SHED))
    first = loop.look(kv=0.5)

    assert (first.state, loop.shares, first.reason) == (
        "Normal",
        (0, 0),
        Reason.WITHIN_THRESHOLDS,
    )
    assert loop.looks(100, kv=0.89) is first


@pytest.mark.parametrize(
    ("kv", "first_step"),
    [
        pytest.param(0.899, 0, id="not yet over"),
        pytest.param(0.90, 20, id="at the threshold half is aimed at, and 20 points are a step"),
        pytest.param(1.0, 20, id="full, and still one step"),
    ],
)
def test_over_the_threshold_the_first_share_is_shed_at_once(kv, first_step):
    loop = Loop(spec(**SHED))

    assert loop.look(kv=kv).shed_percent == first_step


@pytest.mark.parametrize(
    ("kv", "most"),
    [
        pytest.param(0.90, 50, id="halfway between exit and full: half"),
        pytest.param(0.95, 74, id="three quarters of the way"),
        pytest.param(1.0, 95, id="full: as much as maxPercent allows"),
    ],
)
def test_the_share_is_a_proportion_of_how_far_the_pool_is_over(kv, most):
    loop = Loop(spec(**SHED))

    assert loop.looks(20, kv=kv).shed_percent == pytest.approx(most, abs=1)


@pytest.mark.parametrize(
    ("seconds", "backlog", "share"),
    [
        pytest.param(5, 1.9, 0, id="not yet over"),
        pytest.param(60, 2.0, 33, id="at enter: a third of the way from exit to twice enter"),
        pytest.param(60, 4.0, 95, id="twice enter counts as full"),
        pytest.param(60, 40.0, 95, id="more than full is full"),
    ],
)
def test_a_backlog_of_prompts_is_an_overload_too(seconds, backlog, share):
    loop = Loop(spec(**SHED))

    assert loop.looks(seconds // 5, backlog=backlog).shed_percent == share


def test_a_burst_shorter_than_enter_after_is_left_to_the_gate():
    loop = Loop(spec(enterAfter="20s", **SHED))
    loop.looks(4, kv=0.99)
    assert loop.look(kv=0.5).state == "Normal"

    loop.looks(4, kv=0.99)
    assert loop.decision.state == "Normal"
    assert loop.look(kv=0.99).state == "Overloaded"


def test_a_pause_in_the_data_is_no_proof_that_it_was_over_all_the_time():
    loop = Loop(spec(enterAfter="20s", **SHED))
    loop.looks(4, kv=0.99)
    loop.look(kv=None)

    assert loop.looks(4, kv=0.99).state == "Normal"


def test_between_exit_and_enter_nothing_moves():
    loop = Loop(spec(**SHED))
    loop.looks(2, kv=0.99)
    held = loop.shares

    loop.looks(100, kv=0.81)

    assert loop.shares == held == (40, 0)
    assert loop.decision.state == "Overloaded"


def test_it_lets_go_step_by_step_and_ends_only_after_exit_after():
    loop = Loop(spec(exitAfter="60s", **SHED))
    loop.looks(2, kv=0.99)
    steps = [loop.look(kv=0.3).shed_percent for _ in range(60)]

    assert steps[-1] == 0
    assert all(0 <= before - after <= 10 for before, after in itertools.pairwise(steps))
    assert loop.decision.state == "Normal"
    overloaded = [seen for seen in loop.seen if seen.state == "Overloaded"]
    assert loop.decision.since - overloaded[0].since >= 60


def test_a_state_lasts_at_least_its_dwell_whatever_the_signal_does():
    loop = Loop(spec(exitAfter="0s", **SHED))
    loop.look(kv=0.1)
    loop.looks(200, kv=0.99)
    loop.looks(200, kv=0.1)
    assert loop.decision.state == "Normal"
    loop.look(kv=0.99)
    loop.look(kv=0.1)

    changes = [
        b.since for a, b in zip(loop.seen, loop.seen[1:], strict=False) if a.state != b.state
    ]
    assert len(changes) == 3
    assert all(b - a >= DWELL_SECONDS for a, b in itertools.pairwise(changes))


@pytest.mark.parametrize("age", [0, 4, 10, 30])
def test_no_step_is_made_before_data_could_show_what_the_last_one_did(age):
    loop = Loop(spec(**SHED))
    for _ in range(200):
        loop.look(kv=0.99, age=age, after=1)

    changed = [seen.changed_at for seen in loop.seen]
    steps = sorted(set(changed))
    assert len(steps) > 3
    assert all(b - a >= 2 * age for a, b in itertools.pairwise(steps))


def test_a_pressure_that_falls_already_is_not_pushed_further():
    loop = Loop(spec(**SHED))
    loop.looks(3, kv=1.0)
    falling = [loop.look(kv=kv).shed_percent for kv in (0.99, 0.97, 0.95, 0.93, 0.91)]

    assert falling[1:] == [falling[1]] * 4


def shed_for_a_queue(**parts):
    loop = Loop(spec(**SHED, **parts))
    loop.looks(3, backlog=5.0, offered=10.0)
    assert loop.shares == (60, 0), "40 % was too little, 60 % is enough"
    return loop


def test_an_empty_queue_gives_back_a_quarter_of_the_last_step_while_as_much_comes():
    loop = shed_for_a_queue()

    assert loop.looks(120, backlog=0.0, offered=10.0).shed_percent == 55


@pytest.mark.parametrize(
    ("offered", "share"),
    [
        pytest.param(9.0, 50, id="4.5 of 10 requests a second are known to be borne: 4.5 of 9"),
        pytest.param(6.0, 25, id="and of 6"),
        pytest.param(4.0, 0, id="all, where fewer come than that"),
        pytest.param(0.0, 0, id="nobody comes"),
    ],
)
def test_what_is_borne_follows_from_how_many_come(offered, share):
    loop = shed_for_a_queue()

    assert loop.looks(90, backlog=0.0, offered=offered).shed_percent == share


def test_a_little_less_that_comes_is_chance_and_moves_nothing():
    loop = shed_for_a_queue()
    assert loop.looks(30, backlog=0.0, offered=10.0).shed_percent == 55

    assert loop.looks(60, backlog=0.0, offered=9.5).shed_percent == 55


def test_so_few_that_the_rate_says_nothing_let_all_in():
    loop = shed_for_a_queue()

    assert loop.looks(90, backlog=0.0, offered=5e-324).shed_percent == 0


def test_a_queue_that_grows_again_raises_the_share_once_and_it_stays():
    """Chance alone may fill a queue: a way back that was too far is not gone twice."""
    loop = shed_for_a_queue()
    assert loop.looks(30, backlog=0.0, offered=10.0).shed_percent == 55
    assert loop.look(backlog=5.0, offered=10.0).shed_percent == 65

    assert loop.looks(90, backlog=0.0, offered=10.0).shed_percent == 65


def test_a_signal_that_asks_for_a_little_more_moves_no_share_that_holds():
    loop = Loop(spec(**SHED))
    assert loop.looks(20, kv=0.9).shed_percent == 50

    assert loop.looks(20, kv=0.908).shed_percent == 50, "54 % are asked for"
    assert loop.looks(20, kv=0.911).shed_percent == 55


def test_the_most_that_came_of_late_counts_so_that_a_pause_lets_nobody_in():
    loop = shed_for_a_queue()

    assert loop.looks(23, backlog=0.0, offered=1.0).shed_percent == 55
    assert loop.looks(40, backlog=0.0, offered=1.0).shed_percent == 0


def lowest(loop, seconds):
    """Return the least share of a time in which too little makes the queue long again."""
    shares = []
    for _ in range(int(seconds / 5)):
        queue = 5.0 if sum(loop.shares) < 50 else 0.0
        shares.append(loop.look(backlog=queue, offered=10.0).shed_percent)
    return min(shares)


def test_less_is_tried_after_ten_minutes_and_after_twice_as_long_once_that_was_vain():
    loop = shed_for_a_queue()
    assert lowest(loop, 600) == 55
    assert lowest(loop, 180) < 50

    assert lowest(loop, 960) >= 50
    assert lowest(loop, 180) < 50


def test_where_it_is_not_known_how_many_come_it_is_tried_after_exit_after():
    loop = Loop(spec(exitAfter="60s", **SHED))
    loop.looks(3, backlog=5.0)

    assert loop.looks(11, backlog=0.0).shed_percent == 55
    assert loop.looks(10, backlog=0.0).shed_percent < 55


def test_a_kv_cache_tells_itself_how_much_can_be_let_in():
    """At 0.4 with 40 % let in, all would fill it once: 80 % let in is `exit`, and 20 % are shed."""
    loop = Loop(spec(**SHED))
    loop.looks(3, kv=1.0)
    loop.look(kv=0.85)
    while len(loop.seen) < 200:
        loop.look(kv=(100 - sum(loop.shares)) / 100)

    assert loop.shares == (20, 0)


def test_a_queue_that_is_long_for_a_moment_moves_no_share_that_holds():
    loop = Loop(spec(enterAfter="10s", **SHED))
    loop.looks(5, backlog=5.0, offered=10.0)
    loop.looks(10, backlog=0.0, offered=10.0)
    held = loop.shares

    assert [loop.look(backlog=5.0) and loop.shares for _ in range(2)] == [held] * 2
    assert loop.look(backlog=5.0).shed_percent == held[0] + 10, "one that stays does, by less"


def test_each_decision_says_why_with_its_numbers():
    loop = Loop(spec(**SHED))
    made = loop.look(kv=0.95, backlog=0.2, age=3)

    assert made.message == ("kvUsage of pool decode is 0.95, over enter 0.90: 20 % are turned away")
    assert made.because == (
        "kvUsage of pool decode is 0.95, over enter 0.90: pressure 75 %",
        "prefillBacklog of pool prefill is 0.2 s, under exit 1.0 s: pressure 0 %",
    )
    assert (made.signal, made.pool, made.value) == ("kvUsage", "decode", 0.95)
    assert made.metric_age_seconds == 3


def test_without_actions_it_says_that_a_pool_is_over_and_does_nothing():
    loop = Loop(spec(actions=[]))
    assert loop.look(kv=0.5).reason == Reason.OVERLOAD_OFF

    loop.looks(10, kv=0.99)

    assert (loop.decision.state, loop.shares) == ("Overloaded", (0, 0))


def test_signals_that_inform_shed_nothing():
    loop = Loop(spec(**SHED))
    for _ in range(20):
        at = loop.now + 5
        informing = {
            ("decode", Signal.TTFT): Sample(60.0, at),
            ("decode", Signal.PREEMPTIONS): Sample(500.0, at),
            KV: Sample(0.2, at),
            ("prefill", Signal.KV_USAGE): Sample(1.0, at),
        }
        loop.look(readings=informing)

    assert loop.shares == (0, 0)


def test_a_lower_maximum_holds_from_the_next_tick():
    loop = Loop(spec(**SHED))
    loop.looks(10, kv=1.0)
    loop.spec = spec(shed={"maxPercent": 30}, **SHED)

    assert loop.look(kv=1.0).shed_percent == 30
