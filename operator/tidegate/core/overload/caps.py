"""How far each share may go: by the spec, and by what the other deployment can take."""

import math
from dataclasses import dataclass

from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload.allowed import Allowed
from tidegate.core.overload.decision import Headroom

_PART_OF_ROOM = 0.5
"""What is taken at once of the room at a target: a cache that fills flutters, and is seen late."""
LEAST_PERCENT = 5
"""Points of a step at least: what signals, or rates of requests, ask for beyond that is noise."""


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
    """The most of each share. What goes beyond it goes back step by step.

    Attributes:
        most: What the user allows the loop.
        room: What is to be reached: less than `most` where a target has no room.
        kept: What the shares go on from: what holds, but nothing that would be lost, or that the
            user has forbidden since.
        why_no_room: Why not more is shifted; empty where the spec alone bounds it.
    """

    most: Shares
    room: Shares
    kept: Shares
    why_no_room: str = ""


def caps(
    allowed: Allowed,
    before: Allowed | None,
    target: str,
    headroom: Headroom | None,
    now: Shares,
    coming: int = 0,
    borne: int = 100,
) -> Caps:
    """Return the bounds of the loop's shares.

    Args:
        allowed: What the user allows.
        before: What was allowed at the last look; None where that is not known.
        target: The deployment that is or would be shifted to; empty where there is none.
        headroom: What it can take; None where that is not known.
        now: The shares that hold.
        coming: Of what is shifted, percent that the target's headroom doesn't have in it yet.
        borne: The share up to which the target may be sent more, by what it has not borne before.
    """
    shed, most = allowed.shed, allowed.shift_to(target)
    kept = _kept(now, target, allowed, before)
    why = why_never(target, headroom) if target else ""
    if why:
        return Caps(Shares(shed, 0), Shares(shed, 0), Shares(kept.shed, 0), why)
    room, why = _room(target, headroom, now.shift, coming)
    if room > max(now.shift, borne):
        room, why = max(now.shift, borne), f"{target} has not borne more than {borne} % of late"
    why = why if room < most else ""
    return Caps(Shares(shed, most), Shares(shed, min(most, room)), kept, why)


def _kept(now: Shares, target: str, allowed: Allowed, before: Allowed | None) -> Shares:
    """Return the shares that hold, cut where a bound of theirs was drawn closer.

    What is beyond a bound that was there before is what a lever has left: it goes back in steps.
    """
    if before is None:
        return now
    most = allowed.shift_to(target)
    shed = min(now.shed, allowed.shed) if allowed.shed < before.shed else now.shed
    shift = min(now.shift, most) if most < before.shift_to(target) else now.shift
    return Shares(shed, shift)


def why_never(target: str, headroom: Headroom | None) -> str:
    """Say why nothing may be shifted there at all; empty where it may be."""
    if headroom is None:
        return ""
    if not headroom.exists:
        return f"{target} is not there, or has no gate that serves"
    if headroom.shifts != "nowhere":
        return f"{target} shifts requests itself: they could go in a circle"
    return ""


def _room(target: str, headroom: Headroom | None, shift: int, coming: int) -> tuple[int, str]:
    """Return the share that the target has room for, and what bounds it."""
    if headroom is None:
        return shift, f"nothing is known of the room at {target}, so the share does not grow"
    if headroom.shed_percent:
        return 0, f"{target} turns requests of its own away"
    if headroom.stands == "between":
        why = f"{target} is between its own exit and enter, so the share does not grow"
        return shift, why
    if headroom.stands != "under exit":
        return 0, f"{target} is not under its own exit, or that is not known"
    spare, of = headroom.requests_per_second, headroom.of_requests_per_second
    if spare is None or of is None:
        return shift, f"the load of {target} is not known, so the share does not grow"
    part = min(1.0, spare / of) if of > 0 else 1.0
    more = max(0, math.floor(100 * part * _PART_OF_ROOM) - coming)
    if shift and more < LEAST_PERCENT:
        more = 0
    return shift + more, f"{target} has room for {spare:.1f} more of {of:.1f} requests/s"


def divide(total: int, spec: OverloadSpec, room: Shares, now: Shares) -> Shares:
    """Divide an amount over the actions in their order, each up to its room.

    What finds no room stays where it is now: how fast it goes back is in the amount.
    """
    left, shed, shift = total, 0, 0
    for action in spec.actions:
        if action == "Shift":
            shift = min(left, room.shift)
            left -= shift
        else:
            shed = min(left, room.shed)
            left -= shed
    stays = min(left, max(0, now.shift - shift))
    return Shares(shed + min(left - stays, max(0, now.shed - shed)), shift + stays)
