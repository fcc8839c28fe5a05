"""What a decision says of itself, with its numbers."""

from collections.abc import Iterator

from tidegate.api.overload_spec import OverloadSpec, OverrideSpec
from tidegate.api.quantities import spell_duration
from tidegate.core.overload.caps import Shares
from tidegate.core.overload.pressure import Known, Pressure, threshold
from tidegate.core.overload.signal import Signal


def spelled(signal: Signal, value: float) -> str:
    """Spell a signal's value with its unit."""
    return f"{value:.2f}" if signal == Signal.KV_USAGE else f"{value:.1f} s"


def doing(shares: Shares, to: str) -> str:
    """Say what the shares do."""
    parts = []
    if shares.shift:
        parts.append(f"{shares.shift} % of the requests are served by {to}")
    if shares.shed:
        parts.append(f"{shares.shed} % are turned away")
    return " and ".join(parts) or "nothing is turned away or shifted"


def standing(known: Known) -> str:
    """Say how a signal stands to its thresholds."""
    bounds, signal = known.threshold, known.signal
    value = f"{signal} of pool {known.pool} is {spelled(signal, known.sample.value)}"
    if known.is_over:
        return f"{value}, over enter {spelled(signal, bounds.enter)}"
    if known.is_under:
        return f"{value}, under exit {spelled(signal, bounds.exit)}"
    span = f"{spelled(signal, bounds.exit)} and enter {spelled(signal, bounds.enter)}"
    return f"{value}, between exit {span}"


def within(spec: OverloadSpec) -> str:
    """Say that all is well; without values, since they change while nothing happens."""
    usage = spelled(Signal.KV_USAGE, threshold(spec, Signal.KV_USAGE).enter)
    backlog = spelled(Signal.PREFILL_BACKLOG, threshold(spec, Signal.PREFILL_BACKLOG).enter)
    after = spell_duration(spec.enter_after)
    return f"no pool is over kvUsage {usage} or prefillBacklog {backlog} for {after} (enterAfter)"


def lever(by: OverrideSpec, shares: Shares, to: str) -> str:
    """Say what a person has set."""
    return f"{_set(by)}: {doing(shares, to)}"


def refused(by: OverrideSpec, why: str, by_loop: str) -> str:
    """Say why what a person has set is not done, and what is done instead."""
    return f"{_set(by)} is refused: {why}; the loop goes on: {by_loop}"


def _set(by: OverrideSpec) -> str:
    who = f" by {by.set_by}" if by.set_by else ""
    until = by.until.isoformat().replace("+00:00", "Z")
    return f"{by.action} set{who} until {until} ({by.reason})"


def unknown(pressure: Pressure) -> str:
    """Say what is not known, and why."""
    said = []
    for (pool, signal), why in pressure.unknown:
        what = f"{signal} of pool {pool}: "
        said.append(what + why.message.removeprefix(what))
    return "; ".join(said) or "nothing is known of any pool"


def because(pressure: Pressure, no_room: str) -> Iterator[str]:
    """Yield the steps of the reasoning."""
    for known in pressure.known:
        yield f"{standing(known)}: pressure {100 * max(0.0, known.pressure):.0f} %"
    for (pool, signal), why in pressure.unknown:
        yield f"{signal} of pool {pool} is unknown: {why.message}"
    if no_room:
        yield no_room
