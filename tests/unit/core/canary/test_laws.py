"""What holds whatever happens: shares, GPUs, and that no state lasts for ever."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import targets
from tidegate.core.canary.policy import Command
from tidegate.core.canary.state import Phase

from .rollouts import Rollout, policy

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("spec"), st.sampled_from("abcd")),
        st.tuples(st.just("wait"), st.sampled_from([1, 20, 90, 700])),
        st.tuples(st.just("verdict"), st.sampled_from([None, *Verdict])),
        st.tuples(st.just("lose"), st.sampled_from("abcd")),
        st.tuples(st.just("scale"), st.integers(1, 12)),
        st.tuples(st.just("room"), st.integers(0, 3)),
        st.tuples(st.just("pause"), st.booleans()),
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
            case "scale":
                rollout.replicas = value
            case "room":
                rollout.extra = value
            case "pause":
                rollout.wishes = policy(is_paused=value)
            case "say":
                token += 1
                revision = rollout.state.canary or "a"
                rollout.wishes = policy(command=Command(value, revision, str(token)))
            case "follow":
                rollout.follow()
        rollout.turn(verdict)
        check(rollout)
    return rollout


def check(rollout: Rollout) -> None:
    shares, state = rollout.shares(), rollout.state
    serving = {name for name, count in rollout.pods.items() if count}
    assert sum(shares.values()) == (1000 if serving else 0), shares
    assert {name for name, share in shares.items() if share} <= serving
    wanted = targets.of(state, rollout.seen())
    if state.phase is Phase.CANARY:
        assert wanted[state.canary]["unified"] >= 1
        assert wanted[state.stable]["unified"] >= 1
    total = sum(pools["unified"] for pools in wanted.values())
    assert total <= rollout.replicas + max(rollout.extra, rollout.replicas == 1)


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
    rollout.wishes = policy()
    state = rollout.go_on(3600, every=60.0)
    is_over = state.phase in (Phase.SETTLED, Phase.ABORTED)
    waits = state.phase is Phase.CANARY and state.doubtful_since is not None and state.because
    assert is_over or waits, state


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.sampled_from([Verdict.PASS, Verdict.FAIL]))
def test_with_a_verdict_every_rollout_ends(events, verdict):
    rollout = played(events)
    rollout.wishes = policy()
    state = rollout.go_on(3600, verdict, every=30.0)
    assert state.phase in (Phase.SETTLED, Phase.ABORTED), state
