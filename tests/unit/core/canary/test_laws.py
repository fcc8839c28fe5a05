"""What holds whatever happens: shares, GPUs, and that no state lasts for ever."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import names
from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import leaving, targets
from tidegate.core.canary.policy import Command
from tidegate.core.canary.state import Phase

from .rollouts import Rollout, policy

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("spec"), st.sampled_from("abcd")),
        st.tuples(st.just("wait"), st.sampled_from([1, 20, 90, 700, -3600])),
        st.tuples(st.just("verdict"), st.sampled_from([None, *Verdict])),
        st.tuples(st.just("lose"), st.sampled_from("abcd")),
        st.tuples(st.just("blink"), st.sampled_from("abcd")),
        st.tuples(st.just("lose baseline"), st.integers(0, 2)),
        st.tuples(st.just("scale"), st.integers(0, 12)),
        st.tuples(st.just("room"), st.integers(0, 3)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("baseline"), st.booleans()),
        st.tuples(st.just("strategy"), st.sampled_from(["Canary", "RollingUpdate", "Recreate"])),
        st.tuples(st.just("say"), st.sampled_from(["Promote", "Abort", "Retry"])),
        st.tuples(st.just("follow"), st.just(None)),
    ),
    max_size=40,
)


def played(events) -> Rollout:
    rollout, verdict, token = Rollout(), None, 0
    rollout.turn()
    for kind, value in events:
        match kind:
            case "spec":
                rollout.wanted = value
            case "wait":
                rollout.now += value
            case "verdict":
                verdict = value
            case "lose":
                rollout.pods[value] = 0
            case "blink":
                rollout.down ^= {value}
            case "lose baseline" if rollout.state.baseline in rollout.pods:
                rollout.pods[rollout.state.baseline] = value
            case "scale":
                rollout.replicas = value
            case "room":
                rollout.extra = value
            case "pause":
                rollout.wishes = replace(rollout.wishes, is_paused=value)
            case "baseline":
                rollout.wishes = replace(rollout.wishes, has_baseline=value)
            case "strategy":
                rollout.wishes = replace(rollout.wishes, strategy=value)
            case "say":
                token += 1
                command = Command(value, rollout.state.canary or "a", str(token))
                rollout.wishes = replace(rollout.wishes, command=command)
            case "follow":
                rollout.follow()
        rollout.turn(verdict)
        check(rollout)
    return rollout


def check(rollout: Rollout) -> None:
    shares, state = rollout.shares(), rollout.state
    serving = {name for name, count in rollout.pods.items() if count} - rollout.down
    assert sum(shares.values()) == (1000 if serving else 0), shares
    assert {name for name, share in shares.items() if share} <= serving
    staying = {name for name in serving if not leaving.is_leaving(state, name)}
    for one in state.leaving if staying else ():
        assert shares.get(one.revision, 0) <= one.share, "what leaves gets no more than it had"
    assert state.winner not in {entry.revision for entry in state.failed}
    assert max(state.since, state.ready_since or 0.0) <= rollout.now, "no clock runs ahead"
    wanted = {name: pods["unified"] for name, pods in targets.of(state, rollout.seen()).items()}
    if state.phase is Phase.CANARY:
        assert wanted[state.stable] >= min(1, rollout.replicas)
        assert wanted[state.canary] >= min(rollout.replicas, state.baseline is None)
    total = sum(wanted.values())
    assert total <= rollout.replicas + max(rollout.extra, rollout.replicas == 1)
    check_baseline(rollout, wanted, shares)


def check_baseline(rollout: Rollout, wanted: dict[str, int], shares: dict[str, int]) -> None:
    """A baseline belongs to one canary: it is nothing else, and nothing of it stays behind."""
    state = rollout.state
    lasting = [state.stable, *(entry.revision for entry in state.failed)]
    assert not any(map(names.is_baseline, lasting))
    asked = [name for name in wanted if names.is_baseline(name)]
    if state.phase is not Phase.CANARY:
        assert state.baseline is None
        assert state.phase is Phase.ABORTING or not asked, "they go with the analysis"
        return
    assert asked == ([state.baseline] if state.baseline else [])
    if state.baseline is None:
        return
    canary, fresh = wanted[state.canary], wanted[state.baseline]
    assert (canary == 0) == (fresh == 0), "neither comes without the other"
    assert fresh <= canary
    ready = rollout.pods.get(state.canary), rollout.pods.get(state.baseline)
    is_even = ready == (canary, fresh) and canary == fresh and state.ready_since is not None
    is_even = is_even and rollout.down.isdisjoint({state.canary, state.stable})
    if is_even and rollout.pods.get(state.stable, 0) >= wanted[state.stable]:
        assert shares[state.baseline] == min(shares[state.canary], 1000 - shares[state.canary])


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_shares_go_to_ready_pods_only_and_no_rollout_wants_more_than_its_budget(events):
    played(events)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_a_turn_without_news_changes_nothing(events):
    rollout = played(events)
    before = rollout.turn()
    assert rollout.turn() == before


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_left_alone_every_rollout_ends_or_says_whom_it_waits_for(events):
    rollout = played(events)
    rollout.wishes, rollout.down = policy(has_baseline=rollout.wishes.has_baseline), set()
    state = rollout.go_on(3600, every=60.0)
    is_over = state.phase in (Phase.SETTLED, Phase.ABORTED)
    waits = state.phase is Phase.CANARY and state.doubtful_since is not None and state.because
    has_none = state.phase is Phase.CANARY and rollout.replicas == 0
    assert is_over or waits or has_none, state


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.sampled_from([Verdict.PASS, Verdict.FAIL]))
def test_with_a_verdict_every_rollout_ends(events, verdict):
    rollout = played(events)
    rollout.wishes, rollout.down = policy(has_baseline=rollout.wishes.has_baseline), set()
    rollout.replicas = max(1, rollout.replicas)
    state = rollout.go_on(3600, verdict, every=30.0)
    assert state.phase in (Phase.SETTLED, Phase.ABORTED), state
