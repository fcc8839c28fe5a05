"""The history of a rollout: what was measured at each look, bounded, and safe from garbage."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.rollout_history import MetricLook, RolloutLook
from tidegate.core.analysis.evidence import Bound, Judgement, Measurement, Metric, Verdict
from tidegate.core.canary import history
from tidegate.core.canary.history import MOST_BYTES, MOST_LOOKS, MOST_ROLLOUTS
from tidegate.core.canary.seen import Look
from tidegate.core.canary.state import Phase, State
from tidegate.core.status.conditions import format_time

from .rollouts import Rollout

BEGIN = 1_800_000_000
SLOW = Measurement(
    Metric.TPOT_P50, Verdict.FAIL, 0.447123456, 0.046, Bound(0.5, 0.1), 21.0, 0.0, "slow", 300.0
)
EARLY = Measurement(
    Metric.SURVIVAL, Verdict.INCONCLUSIVE, None, None, Bound(margin=0.02), 3.0, None, "few", 40.0
)
WELL = replace(EARLY, verdict=Verdict.PASS, canary=1.0, baseline=1.0, message="is well")
STATE = State(Phase.CANARY, "aaaa", BEGIN, "bbbb", step=1, ready_since=BEGIN)


def seen(*measurements, trouble=""):
    verdict = measurements[0].verdict if measurements else Verdict.INCONCLUSIVE
    judgement = Judgement(verdict, measurements, "tpotP50: slow") if measurements else None
    return Rollout(now=float(BEGIN)).seen(
        Look(None if trouble else 21.7, judgement, trouble=trouble)
    )


def a_look(number=0, step=1, revision="bbbb", message="", **more) -> RolloutLook:
    return RolloutLook(
        at=format_time(BEGIN + number),
        revision=revision,
        stable="aaaa",
        step=step,
        weight_percent=10,
        verdict="Pass",
        message=message,
        **more,
    )


def test_a_look_is_kept_with_both_sides_the_bound_the_samples_and_the_verdict():
    kept = history.look(STATE, seen(SLOW, EARLY, WELL))

    assert (kept.revision, kept.stable, kept.step, kept.weight_percent) == ("bbbb", "aaaa", 2, 30)
    assert (kept.requests, kept.verdict, kept.how) == (21, "Fail", "measured")
    slow, early, well = kept.metrics
    assert (slow.canary, slow.stable, slow.absolute, slow.margin) == (0.447123, 0.046, 0.5, 0.1)
    assert (slow.samples, slow.stable_samples, slow.verdict) == (21, 300, "Fail")
    assert (early.canary, early.stable, early.message) == (None, None, "few")
    assert well.message is None


def test_a_look_names_the_baseline_that_it_was_compared_with():
    kept = history.look(replace(STATE, baseline="aaaa-baseline-bbbb"), seen(SLOW))
    assert (kept.stable, kept.compared_with) == ("aaaa", "aaaa-baseline-bbbb")
    assert history.look(STATE, seen(SLOW)).compared_with is None


def test_a_look_without_an_answer_says_why_and_invents_no_number():
    kept = history.look(STATE, seen(trouble="no answer\nat\ud800 all"))
    assert (kept.verdict, kept.message, kept.requests) == ("Error", "no answer at? all", None)
    assert kept.metrics == []


def test_where_nobody_has_looked_there_is_no_look():
    assert history.look(STATE, Rollout().seen()) is None


@pytest.mark.parametrize("value", [float("inf"), float("nan"), None])
def test_what_is_no_number_is_not_known(value):
    [metric] = history.look(STATE, seen(replace(SLOW, canary=value))).metrics
    assert metric.canary is None


def test_what_is_written_is_read_again():
    looks = history.adding((), [history.look(STATE, seen(SLOW, EARLY)), a_look(1, step=2)])
    assert history.decode(history.encode(looks)) == history.Decoded(looks, 0)


def test_a_look_that_is_written_twice_is_kept_once():
    looks = history.adding((), [a_look(1)])
    assert history.adding(looks, [a_look(1), a_look(2)]) == (a_look(1), a_look(2))


def test_of_a_rollout_the_newest_looks_stay_and_the_last_of_each_step():
    steps = [a_look(number, step=1 + number // 50) for number in range(150)]
    kept = history.adding((), steps)

    assert kept[-MOST_LOOKS:] == tuple(steps[-MOST_LOOKS:])
    assert kept[:-MOST_LOOKS] == (steps[49], steps[99])


def test_of_rollouts_the_last_ones_stay():
    looks = [a_look(number, revision=f"r{number}") for number in range(MOST_ROLLOUTS + 3)]
    kept = {one.revision for one in history.adding((), looks)}
    assert kept == {f"r{number}" for number in range(3, MOST_ROLLOUTS + 3)}


@pytest.mark.parametrize(
    "again", [{"revision": "cccc"}, {"step": 1}, {"stretch": 2}], ids=["other", "anew", "retry"]
)
def test_a_rollout_ends_where_another_one_begins(again):
    before, after = a_look(0, step=2), a_look(1, **{"step": 2, **again})
    assert history.rollouts([before, after]) == [[before], [after]]
    assert history.of_rollout((before, after), after.revision, "aaaa") == (after,)


def test_looks_of_another_rollout_are_not_shown_for_this_one():
    assert history.of_rollout((a_look(),), "cccc", "aaaa") == ()
    assert history.of_rollout((a_look(),), "bbbb", "zzzz") == ()
    assert history.of_rollout((), "bbbb", "aaaa") == ()


garbage = st.one_of(
    st.none(), st.integers(), st.text(), st.dictionaries(st.sampled_from(["looks", "x"]), st.text())
)


@given(garbage)
def test_garbage_is_left_out_and_stops_nothing(data):
    found = history.decode(data)
    assert found.looks == ()
    assert history.adding(found.looks, [a_look()]) == (a_look(),)


def test_lines_that_are_no_looks_are_counted_and_the_others_stay():
    good = history.encode((a_look(),))["looks"]
    broken = ["{", "[]", json.dumps({**a_look().wire(), "unknown": 1}), "[" * MOST_BYTES]
    found = history.decode({"looks": "\n".join([*broken, good])})
    assert found == history.Decoded((a_look(),), len(broken))


LARGE = MetricLook(metric="ttftP50", verdict="Fail", canary=0.123456, message="\x85😀\n" * 80)
made = st.builds(
    a_look,
    number=st.integers(0, 2000),
    step=st.integers(1, 16),
    revision=st.sampled_from(["bbbb", "cccc"]),
    message=st.text(max_size=256),
    metrics=st.integers(0, 16).map(lambda count: [LARGE] * count),
)


@given(st.lists(made, max_size=40))
def test_whatever_is_seen_the_history_keeps_its_bounds_its_order_and_the_newest_look(looks):
    kept = history.adding((), looks)

    assert len(history.encode(kept)["looks"].encode()) <= MOST_BYTES
    assert all(before.at <= after.at for before, after in pairwise(kept))
    assert not looks or max(one.at for one in looks) == kept[-1].at
    assert history.decode(history.encode(kept)) == history.Decoded(kept, 0)
