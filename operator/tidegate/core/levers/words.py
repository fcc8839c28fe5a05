"""What is said of a lever before it is pulled."""

from collections.abc import Iterator, Mapping

from tidegate.core.levers.lever import Lever
from tidegate.core.levers.load import Load
from tidegate.core.levers.present import Present
from tidegate.core.levers.target import Target

_AS_MANY = 0.05
"""Requests a second; less is no difference."""


def asked(load: Load) -> str:
    """Say what comes now."""
    if load.asked is None:
        return "Requests per second now: unknown, no gate told twice."
    used, gates = load.used, load.gates
    kv = "unknown" if used is None else f"{used:.0%}"
    return (
        f"Requests per second now{gates.by}: {gates.at_least}{load.asked:.1f}. "
        f"KV tokens reserved: {kv}."
    )


def ends(load: Load, present: Present, percent: float, more: float | None) -> Iterator[str]:
    """Say what ends when a lever of a total of `percent` holds, and what comes in for it."""
    if present.total is None:
        yield "What is turned away and shifted now is unknown; it ends."
    elif present.total:
        warns = "Warning: " if percent < present.total else ""
        change = _more(load, more, percent - present.total)
        who = f"{present.who[0].lower() if warns else present.who[0]}{present.who[1:]}"
        yield f"{warns}{who} {present.shares()} now; that ends. {change}"


def taken(lever: Lever, load: Load, count: float | None) -> str:
    """Say how many a lever takes; not more than that where the mix of classes is not known."""
    does = "Turned away" if lever.action == "Shed" else f"Moved to {lever.to}"
    most = "at most " if lever.action == "Shed" and not load.by_class else ""
    bound = "" if most else load.gates.at_least
    amount = "an unknown number" if count is None else f"{most or bound}about {count:.1f}"
    return f"{does}: {amount} of them a second ({lever.percent:g} %), the lowest class first."


def by_class(mix: Mapping[int, float], parts: Mapping[int, float]) -> str:
    """Say how many of each class a lever takes."""
    if not mix:
        return "By class: unknown, too few requests ended while this was measured."
    each = (
        f"class {number}: {parts.get(number, 0.0):.1f} of {rate:.1f}"
        for number, rate in mix.items()
    )
    return f"By class, a second: {', '.join(each)}."


def floor(number: int) -> str:
    """Say which classes are never turned away."""
    return f"Classes from {number} up are never turned away, nor is what runs already."


def opened(load: Load, present: Present, more: float | None) -> Iterator[str]:
    """Say what letting all in does."""
    yield asked(load)
    named = (("shed", present.shed), ("shift", present.shift))
    shares = ", ".join(f"{name} {share:g} %" for name, share in named if share) or "none"
    yield (
        f"Shares now: {'unknown' if present.total is None else shares}; they end, and the loop "
        "sets none until it lapses. The gates' own limits still hold."
    )
    if present.total:
        yield _more(load, more, -present.total)


def let_go(present: Present) -> str:
    """Say what the loop does once no lever holds."""
    if not present.total:
        return "The loop decides again by itself."
    return (
        f"The loop decides again by itself, from what holds now ({present.who.lower()} "
        f"{present.shares()}): it gives back 10 points at a time."
    )


def headroom(target: Target, room: float | None, moved: float | None) -> str:
    """Say what room the target of a shift has, and what it does itself."""
    gates, used = target.load.gates, target.load.used
    stands = ["its KV tokens are unknown" if used is None else f"{used:.0%} of its KV is reserved"]
    if target.state:
        stands.append(f"state {target.state}")
    state, begins = "; ".join(stands), f"Room at {target.name}{gates.by}"
    if room is None:
        return f"{begins}: unknown ({state})."
    if target.present.total:
        told = f"{begins}: none, it {target.present.shares()} itself ({state})."
    elif room == 0:
        told = f"{begins}: none up to kvUsage.exit {target.exit:g} ({state})."
    else:
        told = f"{begins}: {gates.at_least}about {room:.1f} requests a second more ({state})."
    if moved is not None and moved > room:
        told += " That is less than what is moved: its own gates will refuse the rest."
    return told


def _more(load: Load, more: float | None, points: float) -> str:
    """Say how many come in beside those of now; `points` is by how much the share grows."""
    if more is None:
        return f"{'More' if points < 0 else 'Fewer'} requests come in." if points else _SAME
    if abs(more) < _AS_MANY:
        return _SAME
    about = f"{load.gates.at_least}about {abs(more):.1f}"
    than = "more" if more > 0 else "fewer"
    return f"{about[0].upper()}{about[1:]} requests a second {than} come in."


_SAME = "As many requests come in as now."
