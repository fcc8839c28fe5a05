"""What a lever will do to the requests that come now, in numbers and in sentences.

What is not known is said to be so: a number that is made up is worse than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.levers import words
from tidegate.core.levers.gates import Gates
from tidegate.core.levers.lever import Lever
from tidegate.core.levers.load import Load
from tidegate.core.levers.present import Present
from tidegate.core.levers.target import Target

_NO_FLOOR = 10
"""Over the top class: what is shifted may be of any."""


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of a lever; None is what is not known.

    Attributes:
        asked: Requests per second that come now.
        taken: Of those, how many are turned away or moved.
        taken_by_class: The same by class; empty where the mix is not known.
        kept_classes: Classes of which not one is taken; empty where the mix is not known.
        more: Requests per second that come in beside those that come in now; fewer below zero.
        present: The shares that hold until then.
        gates: How many told all this.
        target: Where requests are to be shifted, with its load.
        headroom: Requests per second that the target could take on.
        sentences: All of it in words.
    """

    asked: float | None
    taken: float | None
    taken_by_class: Mapping[int, float] = field(default_factory=dict)
    kept_classes: tuple[int, ...] = ()
    more: float | None = None
    present: Present = field(default_factory=Present)
    gates: Gates = field(default_factory=Gates)
    target: Target | None = None
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
            "morePerSecond": _rounded(self.more),
            "now": self.present.document(),
            "gates": self.gates.document(),
            "targetHeadroomPerSecond": _rounded(self.headroom),
            "target": None if self.target is None else self.target.document(),
        }


def of_lever(
    lever: Lever, load: Load, floor: int, present: Present, target: Target | None = None
) -> Forecast:
    """Reckon what a lever does in the place of the shares that hold now.

    `floor` is the class from which on none is turned away.
    """
    percent = lever.percent or 0.0
    shed, shift = (percent if lever.action == action else 0.0 for action in ("Shed", "Shift"))
    by_class = lowest_first(load.by_class, percent, floor if lever.action == "Shed" else _NO_FLOOR)
    taken = _taken(load, shed, shift, floor)
    more = _more(load, present, taken, floor)
    headroom = target.headroom(load) if target else None
    made = Forecast(
        load.asked,
        taken,
        by_class,
        tuple(number for number in load.by_class if not by_class.get(number)),
        more,
        present,
        load.gates,
        target,
        headroom,
    )
    if lever.action == "Open":
        return replace(made, kept_classes=(), sentences=tuple(words.opened(load, present, more)))
    sentences = [words.asked(load), *words.ends(load, present, percent, more)]
    if lever.action == "Shed" and floor == 0:
        sentences.append("spec.overload.shed.floor is 0: no class is ever turned away, nor here.")
        return replace(made, sentences=tuple(sentences))
    sentences += [words.taken(lever, load, taken), words.by_class(load.by_class, by_class)]
    if lever.action == "Shed":
        sentences.append(words.floor(floor))
    if target is not None:
        sentences.append(words.headroom(target, headroom, taken))
    return replace(made, sentences=tuple(sentences))


def of_letting_go(load: Load, present: Present) -> Forecast:
    """Say what letting go of every lever does."""
    return Forecast(
        load.asked,
        None,
        present=present,
        gates=load.gates,
        sentences=(words.asked(load), words.let_go(present)),
    )


def _taken(load: Load, shed: float, shift: float, floor: int) -> float | None:
    """Return the requests a second that shares take, in percent; None where not known."""
    if load.asked is None:
        return None
    whole = sum(load.by_class.values())
    if whole:
        part = sum(lowest_first(load.by_class, shed, floor).values()) / whole
    else:
        part = shed / 100 if floor else 0.0
    return load.asked * min(1.0, part + shift / 100)


def _more(load: Load, present: Present, taken: float | None, floor: int) -> float | None:
    if taken is None or present.shed is None or present.shift is None:
        return None
    now = _taken(load, present.shed, present.shift, floor)
    return None if now is None else now - taken


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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
