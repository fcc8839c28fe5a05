"""The deployment that requests are to be shifted to, and how many more it could take on."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.core.levers.load import Load
from tidegate.core.levers.present import Present
from tidegate.core.overload import load as loops


@dataclass(frozen=True)
class Target:
    """Where requests go, its load and shares.

    Attributes:
        name: Of the deployment.
        load: What its gates count.
        present: What it turns away and shifts itself.
        state: Its `status.overload.state`; empty where there is none.
        exit: Its `kvUsage.exit`, of 1: up to there the loop would fill it, too.
    """

    name: str
    load: Load
    present: Present = field(default_factory=Present)
    state: str = ""
    exit: float = 0.8

    def headroom(self, source: Load) -> float | None:
        """Return the requests a second that it could take on, as the loop would reckon them.

        None where its gates tell nothing, or where there is too little to reckon from. One that
        turns requests away or shifts them has no room.
        """
        if self.present.total:
            return 0.0
        own, theirs = _as_loop(self.load), _as_loop(source)
        return None if own is None else loops.spare_per_second(own, theirs, self.exit)

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        return {
            "name": self.name,
            "state": self.state or None,
            "shedPercent": self.present.shed,
            "shiftPercent": self.present.shift,
            "gates": self.load.gates.document(),
        }


def _as_loop(load: Load) -> loops.Load | None:
    if load.asked is None or not load.tightest[1]:
        return None
    return loops.Load(load.asked, load.admitted, *load.tightest)
