"""From one state to the next: what is wanted, then what a person says, then clock and metrics.

Level-based: the same state and sight lead to the same next state, whatever was before, and a
state that was reached stays until something changes. Deadlines are looked at before verdicts.
"""

from dataclasses import replace

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import begin, clocks, leaving, shares, steps
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import MOST_FAILED, Failed, Phase, State
from tidegate.core.canary.steps import Lateness


def advance(state: State | None, seen: Seen) -> State:
    """Return the next state; None is that of a deployment without any.

    Nothing of it may be acted upon before it is stored: it is what a restart goes on from.
    """
    if state is None:
        return begin.from_pods(seen)
    state = clocks.not_ahead(state, seen.now)
    live = (name for name, pods in seen.pods.items() if pods.live)
    return leaving.noted(state, _next(state, seen), live, shares.of(state, seen))


def _next(state: State, seen: Seen) -> State:
    state = _follow(_with_stable(state, seen), seen)
    state = _obey(state, seen)
    match state.phase:
        case Phase.CANARY:
            return _try(_paused(state, seen), seen)
        case Phase.PROMOTING:
            return _promote(state, seen)
        case Phase.ABORTING:
            return _abort(state, seen)
        case _:
            return state


# what the spec wants


def _follow(state: State, seen: Seen) -> State:
    """Follow the spec: another revision ends what is under way, whatever it is."""
    if seen.wanted == state.canary:
        return _without_steps(state, seen)
    if state.canary is None and seen.wanted == state.stable:
        return state
    if seen.wanted == state.stable:
        went = f"the spec is revision {state.stable} again"
        return state.in_phase(Phase.SETTLED, seen.now, went, None)
    return begin.of(_grounded(state, seen), seen)


def _without_steps(state: State, seen: Seen) -> State:
    """Take a canary at once where the spec now says another strategy in so many words."""
    strategy, is_told = seen.policy.strategy, seen.policy.is_told
    if state.phase is not Phase.CANARY or strategy == "Canary" or not is_told:
        return state
    because = f"taken without further steps: the strategy is {strategy} now"
    return state.in_phase(Phase.PROMOTING, seen.now, because, state.canary)


def _grounded(state: State, seen: Seen) -> State:
    """Return the state with the revision that a new one is to be compared with.

    In the middle of a promotion that is the one that has more pods that serve: the former one may
    be down to its last.
    """
    if state.phase is not Phase.PROMOTING or state.canary is None:
        return state
    promoted = seen.strength(state.canary)
    if not promoted:
        return state
    is_stronger = promoted >= seen.strength_alike(state.stable)
    if not state.is_judged and not is_stronger:
        return state
    return replace(state, stable=state.canary, stable_down_since=None)


# what a person says


def _obey(state: State, seen: Seen) -> State:
    """Carry out a command, once, if it is of the revision that is rolled out.

    One of another revision has come too late. It is spent, too: else it would be obeyed months
    later, when that revision is rolled out again.
    """
    command = seen.policy.command
    if command is None or command.token == state.token:
        return state
    said = replace(state, token=command.token)
    if command.revision != state.canary:
        return said
    if command.action == "Promote" and state.phase is not Phase.PROMOTING:
        return said.in_phase(Phase.PROMOTING, seen.now, "promoted by command", state.canary)
    can_go_back = bool(seen.of(state.stable).pools)
    if command.action == "Abort" and state.phase in (Phase.CANARY, Phase.PROMOTING) and can_go_back:
        return take_back(said, seen.now, "aborted by command")
    if command.action == "Retry" and state.phase in (Phase.ABORTING, Phase.ABORTED):
        kept = tuple(entry for entry in state.failed if entry.revision != state.canary)
        again = begin.of(replace(said, failed=kept), seen)
        return replace(again, stretch=state.stretch + 1)
    return said


def _paused(state: State, seen: Seen) -> State:
    """Stop the clocks of the step while it is paused: what began meanwhile begins at its end.

    It is also where there is nothing to try, since no replicas are wanted.
    """
    if seen.policy.is_paused or seen.is_empty:
        since = seen.now if state.paused_since is None else state.paused_since
        return steps.emptied(replace(state, paused_since=since), seen)
    paused = state.paused_since
    if paused is None:
        return state
    ready = None if state.ready_since is None else _later(state.ready_since, paused, seen.now)
    since = _later(state.since, paused, seen.now)
    return replace(state, since=since, ready_since=ready, paused_since=None)


def _later(began: float, paused: float, now: float) -> float:
    """Return a time later by what has passed of a pause since then."""
    return began + max(0.0, now - max(began, paused))


# what clock, pods and metrics say


def _try(state: State, seen: Seen) -> State:
    """Go on with a canary: take it, take it back, go to the next step, or stay."""
    state = steps.with_pods(_with_baseline(state, seen), seen)
    if _is_needed(state, seen):
        because = f"taken without further steps: revision {state.stable} serves nobody"
        return state.in_phase(Phase.PROMOTING, seen.now, because, state.canary)
    state = steps.with_room(state, seen)
    late = steps.lateness(state, seen)
    if late is not None:
        state = _overdue(state, seen, late)
        if state.phase is not Phase.CANARY:
            return state
    state, verdict = steps.with_look(state, seen)
    if verdict is Verdict.FAIL:
        return take_back(state, seen.now, state.because)
    if state.paused_since is not None or not steps.has_passed(state, seen, verdict):
        undecided = steps.indecision(state, seen, verdict)
        return state if undecided is None else _overdue(state, seen, undecided)
    if state.step + 1 < len(seen.policy.steps):
        return replace(state.at_step(state.step + 1, seen.now), because="")
    done = replace(state, is_judged=True)
    return done.in_phase(Phase.PROMOTING, seen.now, "every step has passed", state.canary)


def _overdue(state: State, seen: Seen, late: Lateness) -> State:
    """Take a canary back that is to blame, or that the spec says so of; else wait, and say why."""
    if late.is_failure or seen.policy.aborts_when_inconclusive:
        return take_back(state, seen.now, late.because)
    if state.doubtful_since is None:
        return replace(state, doubtful_since=seen.now, because=late.because)
    return state


def _with_baseline(state: State, seen: Seen) -> State:
    """Begin the step anew where the spec has come to ask for a baseline, or for none."""
    assert state.canary is not None, "only a canary has a baseline"
    wanted = begin.baseline(state.stable, state.canary, seen)
    return state if wanted == state.baseline else state.beside(wanted, seen.now)


def _with_stable(state: State, seen: Seen) -> State:
    """Note since when stable serves nobody.

    Not while nothing is wanted, nor while a canary serves nobody either: both may come back, and
    the canary's pods may be the first. Where stable was down when it began, it may be the fix.
    """
    down = state.stable_down_since
    is_of_before = down is not None and down <= state.since
    is_beside = state.phase is not Phase.CANARY or seen.of(state.canary).can_serve
    if seen.is_empty or seen.serves(state.stable) or not (is_beside or is_of_before):
        return replace(state, stable_down_since=None)
    return replace(state, stable_down_since=seen.now) if down is None else state


def _is_needed(state: State, seen: Seen) -> bool:
    """Say whether stable has served nobody for too long to wait for a verdict.

    The canary must serve instead. But it cannot come where stable's pods have its place, and where
    they served nobody when it began it may be the fix for just that.
    """
    down = state.stable_down_since
    is_in_the_way = seen.is_blocked and down is not None and down <= state.since
    return begin.is_down(state, seen) and (seen.of(state.canary).can_serve or is_in_the_way)


def _promote(state: State, seen: Seen) -> State:
    """Say that a promotion is over when nothing else is left and nothing is missing."""
    others = any(pods.live for name, pods in seen.pods.items() if name != state.canary)
    if others or not seen.of(state.canary).has(seen.full):
        return state
    assert state.canary is not None, "what is promoted has a name"
    done = replace(state, stable=state.canary, stable_down_since=None)
    return done.in_phase(Phase.SETTLED, seen.now, "", None)


def _abort(state: State, seen: Seen) -> State:
    """Say that an abort is over: stable is at strength, or its deadline has passed."""
    waited = seen.now - state.since
    if seen.has_all(state.stable) or waited > seen.policy.deadline_seconds:
        return state.in_phase(Phase.ABORTED, seen.now, state.because, state.canary)
    return state


def take_back(state: State, now: float, because: str) -> State:
    """Return the state in which the canary is taken back, and remembered as failed."""
    assert state.canary is not None, "only a canary is taken back"
    others = tuple(entry for entry in state.failed if entry.revision != state.canary)
    kept = (*others, Failed(state.canary, now, because))[-MOST_FAILED:]
    return replace(state, failed=kept).in_phase(Phase.ABORTING, now, because, state.canary)
