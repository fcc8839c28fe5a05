"""The shares that are taken off a deployment before a lever is pulled, and by whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.levers.load import Load


@dataclass(frozen=True)
class Present:
    """Percent of the requests; None is what is not known.

    Attributes:
        shed: Turned away.
        shift: Served by another deployment.
        by_lever: A lever has set them, not the loop.
    """

    shed: float | None = None
    shift: float | None = None
    by_lever: bool = False

    @property
    def total(self) -> float | None:
        """Percent of the requests that do not come in."""
        return None if self.shed is None or self.shift is None else self.shed + self.shift

    @property
    def who(self) -> str:
        """Name who has set them, as the subject of a sentence."""
        return "The lever that holds" if self.by_lever else "The loop"

    def shares(self) -> str:
        """Say those there are: `sheds 84 % and shifts 5 %`; empty where there are none."""
        parts = (("sheds", self.shed), ("shifts", self.shift))
        return " and ".join(f"{does} {share:g} %" for does, share in parts if share)

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        by = "lever" if self.by_lever else "loop"
        return {"shedPercent": self.shed, "shiftPercent": self.shift, "by": by}


def present(load: Load, overload: Mapping[str, Any]) -> Present:
    """Return what holds, as the gates tell; where none does, as `status.overload` has it."""
    by_lever = overload.get("state") == "Override"
    if load.gates.answering:
        return Present(load.shed_percent, load.shift_percent, by_lever)
    return Present(overload.get("shedPercent"), overload.get("shiftPercent"), by_lever)
