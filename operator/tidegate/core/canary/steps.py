"""One step of a canary: its pods, its deadline, its looks, and whether it has passed."""

from dataclasses import dataclass, replace

from tidegate.core.analysis.evidence import Verdict
from tidegate.core.canary import targets
from tidegate.core.canary.seen import RevisionPods, Seen
from tidegate.core.canary.state import Phase, State


@dataclass(frozen=True)
class Lateness:
    """A step that took too long; `is_failure` when the canary itself is why."""

    because: str
    is_failure: bool


def with_pods(state: State, seen: Seen) -> State:
    """Note when the pods of both sides were all ready: the step's weight and time begin then."""
    is_ready = (
        not seen.is_empty
        and _has_canary(state, seen)
        and _baseline(state, seen).has(targets.of_baseline(state, seen))
    )
    if state.ready_since is None and is_ready:
        return replace(state, ready_since=seen.now)
    return state


def with_room(state: State, seen: Seen) -> State:
    """Begin the step's time anew when its pods, too late already, have found room after all.

    They could not be ready before: it is no failure of theirs.
    """
    was_late = state.ready_since is None and state.doubtful_since is not None
    if not was_late or state.paused_since is not None or seen.is_blocked:
        return state
    return state if _has_canary(state, seen) else state.at_step(state.step, seen.now)


def emptied(state: State, seen: Seen) -> State:
    """Return a paused step as it is while nothing is wanted that could serve.

    Its pods come anew afterwards, and have the whole deadline for it.
    """
    if not seen.is_empty or state.paused_since is None:
        return state
    since = max(state.since, state.paused_since)
    return replace(state, since=since, ready_since=None, doubtful_since=None)


def lateness(state: State, seen: Seen) -> Lateness | None:
    """Return why pods took longer than the step's deadline allows, None while they have not."""
    within = _overrun(state, seen)
    if not within:
        return None
    if state.ready_since is None:
        is_own = not seen.is_blocked and not _has_canary(state, seen)
        return Lateness(_missing(within, state, seen), is_failure=is_own)
    return None if _is_there(state, seen) else Lateness(_missing(within, state, seen), False)


def indecision(state: State, seen: Seen, verdict: Verdict | None) -> Lateness | None:
    """Return why a look after the step's deadline decides nothing; None without such a look.

    Only a look can say that too little is known: nobody may have looked for as long. And what
    passes now lacks nothing but time.
    """
    within = _overrun(state, seen)
    if not within or verdict is None or verdict is Verdict.PASS:
        return None
    if state.judged_since is None:
        why = f"{within}: no request reached revision {state.canary}"
    else:
        why = f"{within}, and too little is known for a verdict: {state.because}"
    return Lateness(why, is_failure=False)


def _overrun(state: State, seen: Seen) -> str:
    """Return by what the step is over its deadline, empty while it is not."""
    allowed = seen.policy.longest_seconds(seen.policy.at(state.step))
    if state.paused_since is not None or seen.now - state.since <= allowed:
        return ""
    return f"step {state.step + 1} took longer than {allowed:.0f} s"


def _is_there(state: State, seen: Seen) -> bool:
    """Say whether the canary has its pods, and what it is compared with serves."""
    has_other = state.baseline is None or _baseline(state, seen).can_serve
    return has_other and _has_canary(state, seen)


def _has_canary(state: State, seen: Seen) -> bool:
    return seen.of(state.canary).has(targets.of_step(state, seen))


def _baseline(state: State, seen: Seen) -> RevisionPods:
    return seen.of(state.baseline)


def _missing(within: str, state: State, seen: Seen) -> str:
    is_other = state.baseline is not None and _has_canary(state, seen)
    whose = "pods of its baseline" if is_other else "its pods"
    if seen.is_blocked:
        alone = ", set baseline to false" if state.baseline is not None else ""
        return f"{within}: {whose} found no room; free GPUs, raise gpuBudget{alone}, or promote"
    late = f"{within}: {whose} are not ready"
    return f"{seen.trouble}; {late}" if seen.trouble else late  # the column has room for the cause


def wants_look(state: State, seen: Seen) -> bool:
    """Say whether metrics are to be looked at now."""
    if state.phase is not Phase.CANARY or state.ready_since is None:
        return False
    step = seen.policy.at(state.step)
    if not step.is_judged or seen.now < warm_at(state, seen):
        return False
    return state.looked_at is None or seen.now - state.looked_at >= step.look_seconds


def warm_at(state: State, seen: Seen) -> float:
    """Return from when on requests count: after the warm-up of the first step's pods."""
    if state.evidence_since is not None:
        return state.evidence_since
    return (state.ready_since or seen.now) + seen.policy.warm_up_seconds


def own_since(state: State, seen: Seen) -> float:
    """Return from when on requests count for this step alone: it had its weight."""
    begun = state.judged_since if state.judged_since is not None else state.ready_since
    return seen.now if begun is None else begun


def with_look(state: State, seen: Seen) -> tuple[State, Verdict | None]:
    """Note a look, if there was one; return also what it is worth.

    The first requests begin the analysis: of the rollout, and of the step with its own weight.
    """
    look = seen.look
    if look is None:
        return state, None
    state = replace(state, looked_at=seen.now)
    if look.requests is None:
        verdict = Verdict.ERROR if look.trouble else Verdict.INCONCLUSIVE
        return _counted(state, verdict, look.trouble), verdict
    is_asked = int(look.requests) > state.requests
    if state.evidence_since is None and is_asked:
        state = replace(state, evidence_since=warm_at(state, seen))
    if state.judged_since is None:
        state = replace(state, judged_since=look.asked_since)
    verdict = look.judgement.verdict if look.judgement else Verdict.INCONCLUSIVE
    state = replace(state, requests=int(look.requests))
    message = look.judgement.message if look.judgement else "no request yet"
    state = _counted(state, verdict, message)
    if verdict is Verdict.PASS and lateness(state, seen) is None:
        state = replace(state, doubtful_since=None)
    return state, verdict


def _counted(state: State, verdict: Verdict, message: str) -> State:
    was = state.verdicts
    match verdict:
        case Verdict.PASS:
            now = replace(was, passed=was.passed + 1)
        case Verdict.ERROR:
            now = replace(was, errors=was.errors + 1)
        case _:
            now = replace(was, inconclusive=was.inconclusive + 1)
    return replace(state, verdicts=now, because=message or state.because)


def has_passed(state: State, seen: Seen, verdict: Verdict | None) -> bool:
    """Say whether the step is over: its time has passed, and the verdict of just now is Pass.

    What was looked at must reach to the end of this time. Its pods must be there still: a canary
    that lost them has proved nothing.
    """
    step = seen.policy.at(state.step)
    if state.ready_since is None or not _is_there(state, seen):
        return False
    if not step.is_judged:
        return seen.now - state.ready_since >= step.seconds
    began, until = state.judged_since, seen.look.until if seen.look else None
    if verdict is not Verdict.PASS or began is None or until is None:
        return False
    return until - began >= step.seconds
