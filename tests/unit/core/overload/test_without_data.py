"""No data is neither a load nor its absence."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload import conditions
from tidegate.core.overload.signal import Sample

from .loops import BACKLOG, GONE, KV, START, Loop, lever, spec

SHED = {"actions": ["Shed"]}


def overloaded(**parts):
    loop = Loop(spec(**SHED, **parts))
    loop.looks(3, kv=1.0)
    assert loop.shares == (60, 0)
    return loop


def test_shares_hold_without_data_until_hold_for_has_passed():
    loop = overloaded(holdFor="300s")

    loop.looks(59, kv=None)
    assert loop.shares == (60, 0)
    assert loop.decision.until > loop.now, "and they do not lapse at the gates"

    loop.look(kv=None)
    loop.look(kv=None)
    assert loop.shares == (50, 0), "then they go back step by step: the gate's own cap protects"
    assert loop.decision.reason == Reason.METRICS_STALE
    assert "the gates' own token cap protects" in loop.decision.message


@pytest.mark.parametrize(
    "readings",
    [{KV: GONE}, {}, {KV: GONE, BACKLOG: Sample(0.1, START)}],
    ids=["stale", "nothing told", "one of two"],
)
def test_what_a_lever_left_is_not_held_for_want_of_data(readings):
    """Who let go of it meant it; nobody would come to let go of it once more."""
    loop = Loop(spec(**SHED, holdFor="300s"))
    loop.pull(action="Shed", percent=100, lasts=60)
    loop.look(readings)

    left = [loop.look(readings, after=20.0).shed_percent for _ in range(16)]

    assert left[:4] == [100, 100, 100, 90]
    assert left[-1] == 0


def test_with_static_cap_shares_go_back_at_once_but_step_by_step():
    loop = overloaded(onMissingMetrics="StaticCap")

    shares = [loop.look(kv=None, after=10).shed_percent for _ in range(7)]

    assert shares == [50, 40, 30, 20, 10, 0, 0]
    assert loop.decision.state == "Normal"


@pytest.mark.parametrize("policy", ["Hold", "StaticCap"])
def test_a_monitoring_outage_sheds_nobody(policy):
    loop = Loop(spec(onMissingMetrics=policy))

    loop.looks(200, kv=None, backlog=None)

    assert (loop.decision.state, loop.shares) == ("Normal", (0, 0))


@pytest.mark.parametrize("parts", [{}, {"actions": []}])
@pytest.mark.parametrize(
    ("readings", "says"),
    [
        pytest.param({KV: GONE}, "kvUsage of pool decode: the newest sample is 47 s", id="stale"),
        pytest.param({}, "nothing is known of any pool", id="nothing told"),
    ],
)
def test_that_all_is_well_is_not_said_where_nothing_is_known(readings, says, parts):
    loop = Loop(spec(**parts))
    for made in (loop.look(readings), loop.looks(2, kv=0.3) and loop.look(readings)):
        verdict = conditions.overloaded(made)
        assert (made.state, loop.shares, verdict.status) == ("Normal", (0, 0), "Unknown")
        assert verdict.reason == ("MetricsStale" if readings else "MetricsMissing")
        assert says in verdict.message
        assert "no pool is over" not in verdict.message

    assert loop.look(readings) is made, "and an outage is no news at each tick"
    assert conditions.overloaded(loop.look(kv=0.3)).status == "False"


def test_what_a_lever_left_is_not_called_within_thresholds_where_nothing_is_known():
    loop = Loop(spec(override=lever("Shed", START + 7, percent=30)))
    loop.look(kv=None)
    made = loop.look(kv=None)

    assert (loop.shares, conditions.overloaded(made).status) == ((30, 0), "Unknown")
    assert "30 % are turned away" in made.message


def test_a_deployment_of_which_prometheus_tells_nothing_is_unknown_not_idle():
    loop = overloaded()

    loop.looks(20)

    assert loop.shares == (60, 0)


def test_what_is_known_still_sheds_and_what_is_not_keeps_it_from_letting_go():
    loop = Loop(spec(**SHED))

    assert loop.looks(2, kv=1.0, backlog=None).shed_percent == 40
    assert loop.looks(50, kv=0.1, backlog=None).shed_percent == 40
    assert loop.look(kv=0.1, backlog=0.0).shed_percent == 40
    assert loop.looks(3, kv=0.1, backlog=0.0).shed_percent < 40


def test_a_signal_that_stays_away_keeps_no_share_for_ever():
    loop = Loop(spec(**SHED, holdFor="300s"))
    loop.looks(2, kv=1.0, backlog=0.0)
    assert loop.shares == (40, 0)

    assert loop.looks(59, kv=None, backlog=0.0).shed_percent == 40
    assert loop.looks(20, kv=None, backlog=0.0).shed_percent == 0


def test_what_is_left_to_be_seen_still_keeps_a_share():
    loop = Loop(spec(**SHED, holdFor="300s"))
    loop.looks(2, kv=None, backlog=4.0)
    assert loop.shares == (40, 0)

    assert loop.looks(200, kv=None, backlog=1.5).shed_percent == 40


def test_data_that_come_back_are_gone_by_at_once():
    loop = overloaded()
    loop.looks(10, kv=None)

    assert loop.look(kv=1.0).shed_percent == 70
