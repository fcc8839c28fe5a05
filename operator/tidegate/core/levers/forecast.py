"""What a lever will do to the requests that come now, in numbers and in sentences.

What is not known is said to be so: a number that is made up is worse than none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.levers.lever import Lever
from tidegate.core.levers.load import Load


@dataclass(frozen=True)
class Target:
    """The deployment that requests are to be shifted to, and its load."""

    name: str
    load: Load

    def headroom(self) -> float | None:
        """Return the requests a second that it could take on, were they like those it has.

        None where its gates tell nothing, or where it has too little to reckon from.
        """
        used = self.load.used
        if not self.load.asked or not used or used >= 1:
            return 0.0 if used is not None and used >= 1 else None
        return self.load.asked * (1 - used) / used


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of a lever; None is what is not known.

    Attributes:
        asked: Requests per second that come now.
        taken: Of those, how many are turned away or moved.
        taken_by_class: The same by class; empty where the mix is not known.
        kept_classes: Classes of which not one is taken; empty where the mix is not known.
        headroom: Requests per second that the target could take on.
        sentences: All of it in words.
    """

    asked: float | None
    taken: float | None
    taken_by_class: Mapping[int, float] = field(default_factory=dict)
    kept_classes: tuple[int, ...] = ()
    headroom: float | None = None
    sentences: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return it as `--output json` shows it."""
        return {
            "requestsPerSecond": _rounded(self.asked),
            "takenPerSecond": _rounded(self.taken),
            "takenPerSecondByClass": {
                str(key): _rounded(rate) for key, rate in self.taken_by_class.items()
            },
            "keptClasses": list(self.kept_classes),
            "targetHeadroomPerSecond": _rounded(self.headroom),
        }


def of_lever(lever: Lever, load: Load, floor: int, target: Target | None = None) -> Forecast:
    """Reckon what a lever does. `floor` is the class from which on none is turned away."""
    if lever.action == "Open":
        return Forecast(load.asked, 0.0, sentences=(_asked(load), *_opened(load)))
    percent = lever.percent or 0.0
    taken = None if load.asked is None else load.asked * percent / 100
    protected = floor if lever.action == "Shed" else 10
    by_class = lowest_first(load.by_class, percent, protected)
    if lever.action == "Shed" and load.by_class and load.asked:
        taken = load.asked * sum(by_class.values()) / sum(load.by_class.values())
    kept = tuple(number for number in load.by_class if not by_class.get(number))
    headroom = target.headroom() if target else None
    sentences = [_asked(load), _taken(lever, taken), _by_class(load.by_class, by_class)]
    if lever.action == "Shed" and floor < 10:
        sentences.append(
            f"Classes from {floor} up are never turned away, nor is what runs already."
        )
    if target is not None:
        sentences.append(_headroom(target, headroom, taken))
    return Forecast(load.asked, taken, by_class, kept, headroom, tuple(sentences))


def of_letting_go(load: Load) -> Forecast:
    """Say what letting go of every lever does."""
    return Forecast(load.asked, None, sentences=(_asked(load), "The loop decides again by itself."))


def lowest_first(by_class: Mapping[int, float], percent: float, floor: int) -> dict[int, float]:
    """Take a share of all requests from the lowest class up, none from the floor on."""
    left = sum(by_class.values()) * percent / 100
    taken: dict[int, float] = {}
    for number in sorted(by_class):
        part = min(left, by_class[number]) if number < floor else 0.0
        if part > 0:
            taken[number] = part
        left -= part
    return taken


def _asked(load: Load) -> str:
    if load.asked is None:
        return "Requests per second now: unknown, no gate told twice."
    used = load.used
    kv = "unknown" if used is None else f"{used:.0%}"
    return f"Requests per second now: {load.asked:.1f}. KV tokens reserved: {kv}."


def _taken(lever: Lever, taken: float | None) -> str:
    does = "Turned away" if lever.action == "Shed" else f"Moved to {lever.to}"
    amount = "an unknown number" if taken is None else f"about {taken:.1f}"
    return f"{does}: {amount} of them a second ({lever.percent:g} %), the lowest class first."


def _by_class(mix: Mapping[int, float], taken: Mapping[int, float]) -> str:
    if not mix:
        return "By class: unknown, too few requests ended while this was measured."
    parts = [
        f"class {number}: {taken.get(number, 0.0):.1f} of {rate:.1f}"
        for number, rate in mix.items()
    ]
    return f"By class, a second: {', '.join(parts)}."


def _opened(load: Load) -> Sequence[str]:
    now = [
        f"{name} {percent:g} %"
        for name, percent in (("shed", load.shed_percent), ("shift", load.shift_percent))
        if percent
    ]
    return (
        f"Shares now: {', '.join(now) or 'none'}; they end, and the loop sets none until it "
        "lapses. The gates' own limits still hold.",
    )


def _headroom(target: Target, headroom: float | None, taken: float | None) -> str:
    used = target.load.used
    state = "its KV tokens are unknown" if used is None else f"{used:.0%} of its KV is reserved"
    if headroom is None:
        return f"Room at {target.name}: unknown ({state})."
    told = f"Room at {target.name}: about {headroom:.1f} requests a second more ({state})."
    if taken is not None and taken > headroom:
        told += " That is less than what is moved: its own gates will refuse the rest."
    return told


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
