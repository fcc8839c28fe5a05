"""What holds for every series of signals, honest or not."""

import math
import random
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.overload.decide import DWELL_SECONDS, decide
from tidegate.core.overload.decision import Headroom, Traffic
from tidegate.core.overload.pressure import Standing
from tidegate.core.overload.signal import Sample

from .loops import KV, ROOMY, TICK, Loop, lever, spec

STANDINGS = get_args(Standing)
UP_PERCENT, DOWN_PERCENT = 20, 10
"""What users are promised of one step; not read from the code that is to keep it."""
MANY = settings(max_examples=60)
USAGE = st.one_of(st.none(), st.floats(0, 1.2), st.sampled_from([0.0, 0.79, 0.8, 0.9, 1.0]))
SECONDS = st.one_of(st.none(), st.floats(0, 20), st.sampled_from([0.0, 1.0, 2.0, 4.0]))
ROOM = st.one_of(
    st.none(),
    st.builds(
        Headroom,
        exists=st.just(True),
        requests_per_second=st.one_of(st.none(), st.floats(0, 100)),
        of_requests_per_second=st.one_of(st.none(), st.floats(0, 100)),
        stands=st.sampled_from(STANDINGS),
    ),
)
PARTS = {
    "kv": USAGE,
    "backlog": SECONDS,
    "headroom": ROOM,
    "offered": st.one_of(st.none(), st.floats(0, 1000)),
    "after": st.one_of(st.floats(0.5, 40), st.floats(0.5, 200)),
    "age": st.floats(0, 45),
    "set_back": st.sampled_from([0.0] * 8 + [2.0, 600.0]),
}
"""A look may come after gates have let go of the shares, and by a clock that was set back."""
LASTS = st.integers(1, 120)
LEVER = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"action": st.just("Open"), "lasts": LASTS}),
    st.fixed_dictionaries(
        {"action": st.just("Shed"), "percent": st.integers(0, 100), "lasts": LASTS}
    ),
    st.fixed_dictionaries(
        {
            "action": st.just("Shift"),
            "percent": st.integers(0, 100),
            "to": st.sampled_from(["spill", "other"]),
            "lasts": LASTS,
        }
    ),
)
"""What somebody sets; nothing is that it is taken away."""
PULLED = st.one_of(st.none(), st.none(), st.none(), LEVER)
SERIES = st.lists(st.fixed_dictionaries({**PARTS, "pulled": PULLED}), min_size=1, max_size=25)
LOOK = st.fixed_dictionaries(PARTS)
ALONE = st.lists(LOOK, min_size=1, max_size=25)
"""Nobody pulls a lever."""
SPECS = st.builds(
    lambda actions, most, enter_after, exit_after, hold, policy: spec(
        actions=actions,
        shift={"to": "spill", "maxPercent": most},
        shed={"maxPercent": 90},
        enterAfter=f"{enter_after}s",
        exitAfter=f"{exit_after}s",
        holdFor=f"{hold}s",
        onMissingMetrics=policy,
    ),
    st.sampled_from([["Shift", "Shed"], ["Shed", "Shift"], ["Shed"], ["Shift"], []]),
    st.integers(0, 100),
    st.integers(0, 60),
    st.integers(0, 120),
    st.integers(0, 300),
    st.sampled_from(["Hold", "StaticCap"]),
)


def run(of, series):
    loop = Loop(of)
    for look in series:
        loop.look(**look)
    return loop


def lasting(before, now):
    """Return the shares that gates still hold: none once they have lapsed."""
    lapsed = before.until and now >= before.until
    return (0, 0) if lapsed else (before.shed_percent, before.shift_percent)


@MANY
@given(SPECS, SERIES)
def test_no_share_moves_by_more_than_a_step_nor_beyond_its_maximum(of, series):
    loop = Loop(of)
    for look in series:
        before = loop.decision
        made = loop.look(**look)
        assert made.shed_percent + made.shift_percent <= 100
        if made.state == "Override":
            continue
        held = lasting(before, loop.now)
        for was, share in zip(held, loop.shares, strict=True):
            assert -DOWN_PERCENT <= share - was <= UP_PERCENT
        most = of.shed.max_percent if "Shed" in of.actions else 0
        assert made.shed_percent <= max(most, held[0])
        most = of.shift.max_percent if "Shift" in of.actions else 0
        assert made.shift_percent <= max(most if made.shift_to == "spill" else 0, held[1])
        assert made.shift_to in ("", before.shift_to if held[1] else "spill")


@MANY
@given(SPECS, SERIES)
def test_nobody_more_is_turned_away_while_nothing_is_overloaded(of, series):
    loop = Loop(of)
    for look in series:
        before = loop.decision
        if loop.look(**look).state == "Normal":
            assert loop.shares[0] <= lasting(before, loop.now)[0]


@MANY
@given(SPECS, SERIES)
def test_together_they_fall_by_no_more_than_a_step(of, series):
    """What was kept out never comes back as one wave, whoever kept it out."""
    loop = Loop(of)
    for look in series:
        before = loop.decision
        if loop.look(**look).state != "Override":
            assert sum(lasting(before, loop.now)) - sum(loop.shares) <= DOWN_PERCENT


@MANY
@given(SPECS, SERIES)
def test_no_state_is_shorter_than_the_dwell(of, series):
    loop, begun = Loop(of), None
    for look in series:
        before = loop.decision.state
        after = loop.look(**look).state
        if after == before:
            continue
        if begun is not None and "Override" not in (before, after):
            assert loop.elapsed - begun >= DWELL_SECONDS - 1
        begun = loop.elapsed


@MANY
@given(SPECS, SERIES)
def test_shares_always_carry_an_end_and_none_is_nearer_than_half_of_its_time(of, series):
    loop = Loop(of)
    for look in series:
        made = loop.look(**look)
        if made.state == "Override":
            lapses = loop.spec.override.until.timestamp() + TICK.ttl_seconds
            assert made.until == math.ceil(lapses)
        elif any(loop.shares):
            left = made.until - loop.now
            assert TICK.ttl_seconds / 2 <= left <= TICK.ttl_seconds + 1
        else:
            assert made.until == 0


@MANY
@given(SPECS, SERIES)
def test_the_same_input_gives_the_same_output(of, series):
    first, second = run(of, series), run(of, series)

    assert (first.seen, first.timers) == (second.seen, second.timers)


@MANY
@given(SPECS, SERIES, LOOK, st.floats(0, 1.2), st.floats(0, 1.2))
def test_a_higher_signal_never_takes_less_off(of, series, last, one, other):
    loop = run(of, series)
    low, high = sorted((one, other))

    def then(value):
        now = loop.now + last["after"]
        signals = {KV: Sample(value, now - last["age"])}
        made, _ = decide(
            loop.spec,
            signals,
            lambda to: last["headroom"],
            loop.decision,
            loop.timers,
            now,
            loop.tick,
            Traffic(last["offered"]),
        )
        return made.shed_percent + made.shift_percent

    assert then(low) <= then(high)


@MANY
@given(SPECS, SERIES, st.lists(st.floats(0.5, 29), min_size=1, max_size=30), ROOM)
def test_missing_data_moves_nothing_of_the_loops_own_while_shares_are_held(
    of, series, pauses, room
):
    of = of.model_copy(update={"on_missing_metrics": "Hold"})
    loop = run(of, series)
    if loop.decision.state != "Overloaded" and sum(loop.shares):
        return  # what a lever has left goes back in steps
    loop.timers = replace(loop.timers, unknown_since=None)
    lost_at, held = None, None
    for pause in pauses:
        now = loop.now + pause
        if lost_at is None:
            lost_at, held = now, lasting(loop.decision, now)
        loop.look(kv=None, backlog=None, headroom=room, after=pause)
        if loop.now - lost_at >= of.hold_for:
            return
        assert loop.shares == held
        assert loop.decision.state == loop.seen[-2].state or loop.seen[-2].state == "Override"


@MANY
@given(SPECS, SERIES)
def test_missing_data_never_raise_a_share(of, series):
    loop = Loop(of)
    for look in series:
        was = loop.decision
        made = loop.look(**look)
        if made.state != "Override" and look["kv"] is None and look["backlog"] is None:
            assert sum(loop.shares) <= sum(lasting(was, loop.now))


@MANY
@given(ALONE, st.sampled_from(["Shed", "Open"]), st.integers(0, 100), st.floats(1, 300))
def test_a_lever_holds_exactly_until_it_lapses(series, action, percent, lasts):
    loop = run(spec(), series)
    until = float(math.ceil(loop.now + lasts))
    share = {"percent": percent} if action == "Shed" else {}
    loop.spec = spec(override=lever(action, until, **share))
    wanted = percent if action == "Shed" else 0
    for look in series:
        made = loop.look(**look)
        if loop.now >= until:
            assert made.state != "Override"
            return
        assert (made.state, loop.shares) == ("Override", (wanted, 0))
        assert made.until == until + TICK.ttl_seconds


FLEETING = st.sampled_from([ROOMY, Headroom(False), Headroom(True, shifts="back")])


@MANY
@given(ALONE, st.integers(1, 100), st.data())
def test_a_shift_that_is_refused_leaves_the_loop_to_decide(series, percent, data):
    """It is carried out, or it is as if nobody had set it: it never opens what the loop shed."""
    loop, other = run(spec(), series), run(spec(), series)
    loop.spec = spec(override=lever("Shift", loop.now + 10_000, percent=percent, to="other"))
    for look in series:
        room = data.draw(FLEETING)
        rooms = {"other": room}
        made, by_loop = (
            loop.look(**{**look, "headroom": rooms}),
            other.look(**{**look, "headroom": rooms}),
        )
        if room is ROOMY:
            assert (made.state, loop.shares) == ("Override", (0, percent))
            return
        assert made.refused
        assert (made.state, loop.shares, made.reason) == (
            by_loop.state,
            other.shares,
            by_loop.reason,
        )


@given(
    st.floats(0, 0.79),
    st.lists(st.floats(0.5, 40), max_size=25),
)
def test_nothing_changes_while_nothing_happens(kv, pauses):
    loop = Loop(spec())
    first = loop.look(kv=kv, backlog=0.1)
    for pause in pauses:
        assert loop.look(kv=kv, backlog=0.1, after=pause) is first


@MANY
@given(SPECS, SERIES)
def test_shares_always_go_back_once_nothing_is_left_of_the_load(of, series):
    loop = run(of, series)
    loop.pull()

    loop.looks(100, kv=0.0, backlog=0.0, offered=0.0, after=20.0)

    assert (loop.decision.state, loop.shares) == ("Normal", (0, 0))


@MANY
@given(SPECS, SERIES)
def test_shares_lapse_when_the_loop_stands_still_and_are_built_up_anew(of, series):
    loop = run(of, series)

    before = loop.decision
    made = loop.look(kv=1.0, headroom=ROOMY, after=TICK.ttl_seconds + 2)

    if before.state == "Override":  # gates hold its shares for longer
        return
    assert made.shed_percent + made.shift_percent <= UP_PERCENT


@MANY
@given(ALONE)
def test_what_was_never_known_is_not_an_overload(series):
    loop = Loop(spec())
    for look in series:
        loop.look(**{**look, "kv": None, "backlog": None})

    assert (loop.decision.state, loop.shares) == ("Normal", (0, 0))


def a_series(chance):
    """Return a random walk of both signals: with gaps, late data, a target that comes and goes."""
    kv, backlog = chance.random(), 5 * chance.random()
    for _ in range(40):
        kv = min(1.0, max(0.0, kv + chance.gauss(0, 0.1)))
        backlog = max(0.0, backlog + chance.gauss(0, 0.7))
        room = Headroom(True, 100 * chance.random(), 100.0, chance.choice(STANDINGS))
        yield {
            "kv": None if chance.random() < 0.1 else kv,
            "backlog": None if chance.random() < 0.1 else backlog,
            "headroom": None if chance.random() < 0.1 else room,
            "offered": None if chance.random() < 0.1 else 20 * chance.random(),
            "after": chance.choice([1.0, 5.0, 5.0, 17.5]),
            "age": chance.choice([0.0, 1.0, 4.0, 15.0]),
            "set_back": 300.0 if chance.random() < 0.03 else 0.0,
            "pulled": a_lever(chance) if chance.random() < 0.06 else None,
        }


def a_lever(chance):
    """Return what somebody pulls, or that it is taken away."""
    action = chance.choice(["Shed", "Shift", "Open", None])
    if action is None:
        return {}
    share = {} if action == "Open" else {"percent": chance.randint(0, 100)}
    to = {"to": chance.choice(["spill", "other"])} if action == "Shift" else {}
    return {"action": action, "lasts": chance.randint(1, 120), **share, **to}


@pytest.mark.parametrize("block", range(20))
def test_two_thousand_random_walks_break_no_law(block):
    of = spec(shift={"to": "spill"}, exitAfter="20s", holdFor="30s")
    for seed in range(100 * block, 100 * block + 100):
        loop, begun = Loop(of), None
        for look in a_series(random.Random(seed)):
            before = loop.decision
            made = loop.look(**look)
            assert not made.until or made.until > loop.now, seed
            if made.state == "Override":
                begun = None
                continue
            held = lasting(before, loop.now)
            steps = [b - a for a, b in zip(held, loop.shares, strict=True)]
            assert all(-DOWN_PERCENT <= step <= UP_PERCENT for step in steps), seed
            assert sum(steps) >= -DOWN_PERCENT, seed
            assert made.shed_percent <= max(95, held[0]), seed
            assert made.shift_percent <= max(50, held[1]), seed
            assert bool(made.until) == any(loop.shares), seed
            if made.state != before.state:
                assert begun is None or loop.elapsed - begun >= DWELL_SECONDS - 1, seed
                begun = loop.elapsed
