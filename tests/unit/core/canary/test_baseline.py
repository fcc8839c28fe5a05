"""Fresh stable pods beside a canary: how many, with which share, and what they never become."""

from dataclasses import replace

import pytest

from tidegate.core import names
from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import pods, record, shares, targets, tell
from tidegate.core.canary.advance import advance
from tidegate.core.canary.policy import Command, Step
from tidegate.core.canary.seen import PoolSize, RevisionPods, Seen
from tidegate.core.canary.state import Phase, State
from tidegate.core.rollout.slices import Slice

from .rollouts import Rollout, policy, unified

FRESH = names.baseline_revision("a", "b")
WITH = policy(has_baseline=True)


def at_weight(percent: int, **changes):
    return policy(has_baseline=True, steps=(Step(percent * 10, 60.0, True),), **changes)


def begun(wishes=WITH, **changes) -> Rollout:
    """A rollout of b with a baseline, at its first step, that has just got its share."""
    rollout = Rollout(wishes=wishes, **changes)
    rollout.turn()
    rollout.wanted = "b"
    rollout.go_on(5)
    assert rollout.state.phase is Phase.CANARY
    return rollout


@pytest.mark.parametrize(
    ("replicas", "extra", "percent", "stable", "canary", "fresh"),
    [
        (10, 1, 10, 9, 1, 1),
        (10, 2, 10, 10, 1, 1),
        (10, 0, 10, 8, 1, 1),
        (10, 1, 50, 1, 5, 5),
        (10, 0, 50, 1, 5, 4),  # one pod of stable stays, so the baseline has fewer
        (10, 2, 75, 1, 8, 3),  # with a quarter of the requests left, more pods would idle
        (100, 4, 5, 94, 5, 5),
        (2, 1, 10, 1, 1, 1),
        (1, 2, 10, 1, 1, 1),
        (2, 0, 10, 2, 0, 0),  # no place for all three: no stable pod goes in vain
        (1, 1, 10, 1, 0, 0),
        (3, 0, 50, 1, 1, 1),  # what fits in is there, and the step waits for the rest
    ],
)
def test_as_many_fresh_pods_as_the_canary_has_and_one_of_stable_always(
    replicas, extra, percent, stable, canary, fresh
):
    rollout = Rollout(replicas=replicas, extra=extra, pods={"a": replicas})
    rollout.wishes = at_weight(percent)
    rollout.turn()
    rollout.wanted = "b"
    wanted = targets.of(rollout.turn(), rollout.seen())
    counts = {name: by_pool["unified"] for name, by_pool in wanted.items()}
    assert counts == {"a": stable, "b": canary, FRESH: fresh}


def test_both_get_the_same_share_once_both_are_ready_and_stable_the_rest():
    rollout = begun()
    assert rollout.shares() == {"a": 800, "b": 100, FRESH: 100}


def test_neither_gets_a_share_while_one_of_them_is_not_ready():
    rollout = begun()
    rollout.state = replace(rollout.state, ready_since=None)
    del rollout.pods[FRESH]
    assert rollout.turn().ready_since is None
    assert rollout.shares() == {"a": 1000, "b": 0}
    assert "those of its baseline" in tell.message(rollout.state, WITH)


def test_at_half_of_the_requests_stable_only_stands_by():
    rollout = begun(at_weight(50))
    assert rollout.pods == {"a": 1, "b": 5, FRESH: 5}
    assert rollout.shares() == {"a": 0, "b": 500, FRESH: 500}


def test_a_smaller_baseline_has_as_much_for_each_of_its_pods():
    rollout = begun(at_weight(50), extra=0)
    assert rollout.pods == {"a": 1, "b": 5, FRESH: 4}
    assert rollout.shares() == {"a": 100, "b": 500, FRESH: 400}


def test_while_the_canary_starts_fresh_pods_help_the_few_of_stable_that_are_left():
    rollout = begun(at_weight(50), extra=0)
    rollout.state = replace(rollout.state, ready_since=None)
    rollout.pods = {"a": 1, "b": 4, FRESH: 4}
    assert rollout.shares() == {"a": 200, FRESH: 800, "b": 0}


def test_a_baseline_that_is_lost_leaves_its_share_to_stable_and_nothing_passes():
    rollout = begun()
    del rollout.pods[FRESH]
    assert rollout.shares() == {"a": 900, "b": 100}
    for _ in range(30):
        rollout.now += 5
        rollout.turn(Verdict.PASS)
    assert rollout.state.step == 0


def test_stable_that_is_down_beside_a_baseline_that_serves_is_not_down():
    rollout = begun()
    rollout.pods["a"] = 0
    rollout.turn()
    assert rollout.shares() == {FRESH: 900, "b": 100}
    rollout.now += 300
    assert rollout.turn().phase is Phase.CANARY


def test_every_step_passes_and_no_fresh_pod_is_left():
    rollout = begun()
    while rollout.state.phase is Phase.CANARY:
        rollout.go_on(5, Verdict.PASS)
        assert rollout.state.compared_with == FRESH or rollout.state.phase is not Phase.CANARY
    state = rollout.go_on(30)
    assert (state.phase, state.stable, rollout.pods) == (Phase.SETTLED, "b", {"b": 10})


def test_a_promotion_is_not_over_while_a_fresh_pod_is_there():
    rollout = Rollout(pods={"b": 10, FRESH: 1}, wanted="b")
    rollout.state = State(Phase.PROMOTING, "a", rollout.now, canary="b")
    assert rollout.turn().phase is Phase.PROMOTING
    assert targets.of(rollout.state, rollout.seen()) == {"b": {"unified": 10}}


def test_after_a_failure_fresh_pods_are_stable_ones_until_they_are_gone():
    rollout = begun(at_weight(50), extra=0)
    rollout.now += 30
    rollout.turn(Verdict.FAIL)
    assert rollout.state.phase is Phase.ABORTING
    assert rollout.shares() == {"a": 100, FRESH: 400, "b": 500}, "stable is at half its strength"
    assert targets.of(rollout.state, rollout.seen()) == {
        "a": {"unified": 6}, FRESH: {"unified": 4}, "b": {"unified": 0},
    }  # fmt: skip
    rollout.pods = {"a": 6, FRESH: 4}
    assert rollout.turn().phase is Phase.ABORTED
    assert rollout.shares() == {"a": 600, FRESH: 400}
    rollout.follow()
    assert rollout.pods == {"a": 10}
    assert [entry.revision for entry in rollout.turn().failed] == ["b"]


def test_a_new_spec_gets_a_fresh_baseline_of_its_own():
    rollout = begun()
    rollout.wanted = "c"
    state = rollout.turn()
    assert (state.stable, state.canary, state.baseline) == ("a", "c", "a-baseline-c")
    assert FRESH not in targets.of(state, rollout.seen())


def test_a_new_spec_is_compared_even_while_only_fresh_pods_serve():
    rollout = begun()
    rollout.wanted = "c"
    seen = rollout.seen()
    down = {**seen.pods, "a": unified(ready=0, asked=9)}
    assert advance(rollout.state, replace(seen, pods=down)).phase is Phase.CANARY


def test_the_former_spec_ends_it():
    rollout = begun()
    rollout.wanted = "a"
    state = rollout.turn()
    assert (state.phase, state.baseline) == (Phase.SETTLED, None)
    assert rollout.shares() == {"a": 900, FRESH: 100, "b": 0}
    rollout.follow()
    assert rollout.pods == {"a": 10}


def test_a_status_that_was_lost_never_makes_a_baseline_the_stable_revision():
    rollout = Rollout(wanted="c", pods={"a": 1, FRESH: 5, "b": 1}, wishes=WITH)
    assert rollout.turn().stable in {"a", "b"}
    rollout = Rollout(wanted="c", pods={FRESH: 5}, wishes=WITH)
    assert rollout.turn().stable == "c"


@pytest.mark.parametrize("has_baseline", [True, False])
def test_asking_for_it_on_the_way_begins_the_step_and_the_evidence_anew(has_baseline):
    rollout = begun(policy(has_baseline=not has_baseline))
    rollout.go_on(60, Verdict.INCONCLUSIVE)
    assert rollout.state.evidence_since is not None
    rollout.wishes = policy(has_baseline=has_baseline)
    rollout.now += 5
    state = rollout.turn()
    assert state.compared_with == (FRESH if has_baseline else "a")
    assert (state.evidence_since, state.requests, state.since) == (None, 0, rollout.now)
    assert state.stretch == 2, "evidence that begins anew has less of the error rate"
    assert rollout.turn() == state


@pytest.mark.parametrize("is_blocked", [True, False])
def test_fresh_pods_that_do_not_come_are_not_the_fault_of_the_canary(is_blocked):
    rollout = Rollout(wishes=WITH)
    rollout.turn()
    rollout.wanted, rollout.is_blocked = "b", is_blocked
    rollout.turn()
    rollout.pods = {"a": 9, "b": 1}
    rollout.now += 800
    state = rollout.turn()
    assert (state.phase, state.ready_since) == (Phase.CANARY, None)
    assert "pods of its baseline" in state.because
    assert ("set baseline to false" in state.because) is is_blocked


def test_a_canary_that_does_not_start_is_taken_back_as_without_a_baseline():
    rollout = Rollout(wishes=WITH, trouble="image missing")
    rollout.turn()
    rollout.wanted = "b"
    rollout.turn()
    rollout.pods = {"a": 9, FRESH: 1}
    rollout.now += 800
    assert rollout.turn().phase is Phase.ABORTING
    assert "its pods are not ready" in rollout.state.because


def test_a_retry_has_a_baseline_again():
    rollout = begun()
    rollout.go_on(40, Verdict.FAIL)
    assert rollout.state.baseline is None
    rollout.wishes = replace(WITH, command=Command("Retry", "b", "1"))
    assert rollout.turn().baseline == FRESH


def test_it_survives_the_status_as_it_is():
    state = begun().state
    stored = record.to_status(state, WITH)
    assert record.from_status(type(stored).model_validate(stored.wire())) == state
    longest = names.baseline_revision("0" * 8, "f" * 8)
    record.to_status(replace(state, baseline=longest), WITH)


# pairs


def pair(prefill: int, decode: int) -> RevisionPods:
    counts = {"prefill": prefill, "decode": decode}
    return RevisionPods(counts, counts, prefill + decode)


def seen_pair(**by_revision: RevisionPods) -> Seen:
    return Seen(
        now=1_000_000.0,
        wanted="b",
        policy=at_weight(25),
        pools={"prefill": PoolSize(2, 1), "decode": PoolSize(8, 1)},
        pods={{"fresh": FRESH}.get(name, name): of for name, of in by_revision.items()},
    )


def test_both_halves_of_a_pair_come_in_the_numbers_of_the_canary():
    state = advance(State(Phase.SETTLED, "a", 0.0), seen_pair(a=pair(2, 8)))
    wanted = targets.of(state, seen_pair(a=pair(2, 8)))
    assert wanted == {
        "a": {"prefill": 1, "decode": 5},
        "b": {"prefill": 1, "decode": 2},
        FRESH: {"prefill": 1, "decode": 2},
    }


def test_half_a_pair_serves_nobody_and_is_never_made_whole_by_the_other_revision():
    state = advance(State(Phase.SETTLED, "a", 0.0), seen_pair(a=pair(2, 8)))
    halves = seen_pair(a=pair(0, 5), b=pair(1, 2), fresh=pair(1, 0))
    assert not halves.serves("a")
    whole = seen_pair(a=pair(1, 5), b=pair(1, 2), fresh=pair(1, 0))
    state = advance(state, whole)
    assert state.ready_since is None, "half a baseline begins nothing"
    assert FRESH not in shares.of(state, whole)
    both = seen_pair(a=pair(1, 5), b=pair(1, 2), fresh=pair(1, 2))
    assert shares.of(advance(state, both), both) == {"a": 500, "b": 250, FRESH: 250}


def test_after_a_failure_a_baseline_helps_by_both_halves_or_not_at_all():
    def wanted(prefill_replicas):
        seen = seen_pair(a=pair(1, 4), b=pair(1, 2), fresh=pair(1, 2))
        pools = {"prefill": PoolSize(prefill_replicas, 1), "decode": PoolSize(8, 1)}
        state = State(Phase.ABORTING, "a", seen.now, canary="b")
        return targets.of(state, replace(seen, pools=pools))

    assert wanted(2)["a"] == {"prefill": 1, "decode": 6}
    assert wanted(2)[FRESH] == {"prefill": 1, "decode": 2}
    assert wanted(1)["a"] == {"prefill": 1, "decode": 8}
    assert FRESH not in wanted(1)


# classes of nodes


def test_a_baseline_stands_on_the_classes_of_node_that_the_canary_is_on():
    def of(revision, node_class, asked, target=0):
        name = f"{revision}-{node_class}"
        return Slice(name, "unified", revision, 1, target, asked=asked, node_class=node_class)

    found = [
        of("a", "small", 6), of("a", "large", 4),
        of("b", "small", 0, target=6), of("b", "large", 0, target=4),
        of(FRESH, "small", 0), of(FRESH, "large", 0),
    ]  # fmt: skip
    wanted = {"a": {"unified": 2}, "b": {"unified": 5}, FRESH: {"unified": 4}}
    pools = {"unified": PoolSize(10, 1, {"small": 6, "large": 5})}
    given = {one.name: one.target for one in pods.with_targets(found, wanted, "b", pools)}
    assert (given["b-small"], given["b-large"]) == (3, 2)
    assert (given[f"{FRESH}-small"], given[f"{FRESH}-large"]) == (2, 2)
