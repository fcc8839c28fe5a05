"""What the user allows the loop; a bound that is drawn closer holds from the next tick."""

import math
from dataclasses import dataclass

from tidegate.api.overload_spec import OverloadSpec


@dataclass(frozen=True)
class Allowed:
    """The most of each share, in percent of the requests, and where the second may go."""

    shed: int
    shift: int
    to: str

    def shift_to(self, target: str) -> int:
        """Return the most that a deployment may be sent."""
        return self.shift if target == self.to else 0


def of_spec(spec: OverloadSpec) -> Allowed:
    """Return what a spec allows; a lever may go beyond it.

    A floor of 0 is that of every class: none may be shed, whatever `maxPercent` says.
    """
    sheds = "Shed" in spec.actions and spec.shed.floor > 0
    shed = math.floor(spec.shed.max_percent) if sheds else 0
    if "Shift" not in spec.actions or spec.shift is None:
        return Allowed(shed, 0, "")
    return Allowed(shed, math.floor(spec.shift.max_percent), spec.shift.to)
