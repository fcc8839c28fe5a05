"""A canary beside the stable revision, as `tidegate status` prints it."""

from tidegate.api.quantities import rounded_duration
from tidegate.cli.cluster.canary_read import Canary
from tidegate.cli.planning import tables
from tidegate.core.canary import beside
from tidegate.core.canary.state import Phase
from tidegate.core.status.conditions import parse_time


def show(canary: Canary, now: float) -> None:
    """Print where the rollout stands, and the last look as a table."""
    last = canary.looks[-1] if canary.looks else None
    rows = beside.rows(last) if last is not None else []
    tables.print_table(title(canary, now), beside.COLUMNS if rows else (), rows)
    tables.print_sentences(sentences(canary, now))


def title(canary: Canary, now: float) -> str:
    """Return phase or step and weight, since when, and what is left until the deadline."""
    state = canary.state
    since = rounded_duration(max(0.0, now - state.since))
    if state.phase is not Phase.CANARY:
        return f"canary {state.canary}: {state.phase.value} for {since}"
    of = f"/{len(canary.policy.steps)}" if canary.policy else ""
    told = [f"step {state.step + 1}{of} for {since}"]
    if canary.weight_percent is not None:
        told.append(f"{canary.weight_percent} % of the requests")
    if state.paused_since is not None:
        told.append("paused: its deadline waits")
    elif canary.deadline_at is not None:
        left = canary.deadline_at - now
        told.append(f"deadline in {rounded_duration(left)}" if left > 0 else "past its deadline")
    return f"canary {state.canary}: {', '.join(told)}"


def sentences(canary: Canary, now: float) -> list[str]:
    """Return when the last look was and what it said, or why none is shown."""
    if canary.silence:
        return [f"its measurements cannot be read: {canary.silence}"]
    if not canary.looks:
        return ["no measurement is kept yet: looks begin after the warm-up of the pods"]
    last = canary.looks[-1]
    at = parse_time(last.at)
    age = f" {rounded_duration(max(0.0, now - at))} ago" if at is not None else ""
    said = [f"{one.metric}: {one.message}" for one in last.metrics if one.message]
    if not said and last.message:
        said = [last.message]
    return [f"last look{age} at step {last.step}: {last.verdict}", *said]
