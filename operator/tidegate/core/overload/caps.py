"""How far each share may go: by the spec, and by what the other deployment can take."""

import math
from dataclasses import dataclass

from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload.decision import Headroom


@dataclass(frozen=True)
class Shares:
    """Percent of the requests: turned away, and served elsewhere. Both are of all requests."""

    shed: int = 0
    shift: int = 0

    @property
    def total(self) -> int:
        """Percent of the requests that this deployment does not serve."""
        return self.shed + self.shift


@dataclass(frozen=True)
class Caps:
    """The most of each share.

    Attributes:
        most: What may not be passed at any moment.
        room: What is to be reached: less than `most` where a target has no room, and then the
            share goes back step by step.
        why_no_room: Why not more is shifted; empty where the spec alone bounds it.
    """

    most: Shares
    room: Shares
    why_no_room: str = ""


def caps(spec: OverloadSpec, target: str, headroom: Headroom | None, now: Shares) -> Caps:
    """Return the bounds of the loop's shares.

    Args:
        spec: What the user allows.
        target: The deployment that would be shifted to; empty where there is none.
        headroom: What it can take; None where that is not known.
        now: The shares that hold.
    """
    shed = _whole(spec.shed.max_percent) if "Shed" in spec.actions else 0
    if "Shift" not in spec.actions or spec.shift is None:
        return Caps(Shares(shed, 0), Shares(shed, 0))
    why = why_never(target, headroom)
    if why:
        return Caps(Shares(shed, 0), Shares(shed, 0), why)
    most = _whole(spec.shift.max_percent)
    room, why = _room(target, headroom, now.shift)
    return Caps(Shares(shed, most), Shares(shed, min(most, room)), why if room < most else "")


def why_never(target: str, headroom: Headroom | None) -> str:
    """Say why nothing may be shifted there at all; empty where it may be."""
    if headroom is None:
        return ""
    if not headroom.exists:
        return f"{target} is not there, or has no gate that serves"
    if headroom.shifts_itself:
        return f"{target} shifts requests itself: they could go in a circle"
    return ""


def _room(target: str, headroom: Headroom | None, shift: int) -> tuple[int, str]:
    """Return the share that the target has room for, and what bounds it."""
    if headroom is None:
        return shift, f"nothing is known of the room at {target}, so the share does not grow"
    if headroom.is_over_exit:
        return 0, f"{target} is not under its own exit, or that is not known"
    spare, of = headroom.requests_per_second, headroom.of_requests_per_second
    if spare is None or of is None:
        return shift, f"the load of {target} is not known, so the share does not grow"
    more = math.floor(100 * min(1.0, spare / of)) if of > 0 else 100
    return shift + more, f"{target} has room for {spare:.1f} more of {of:.1f} requests/s"


def divide(total: int, spec: OverloadSpec, room: Shares) -> Shares:
    """Divide an amount over the actions in their order, each up to its room."""
    left, shed, shift = total, 0, 0
    for action in spec.actions:
        if action == "Shift":
            shift = min(left, room.shift)
            left -= shift
        else:
            shed = min(left, room.shed)
            left -= shed
    return Shares(shed, shift)


def _whole(percent: float) -> int:
    return math.floor(percent)
