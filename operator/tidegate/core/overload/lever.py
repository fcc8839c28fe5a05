"""The lever of the one on call: it holds instead of the loop until it lapses.

One that cannot be carried out holds nothing: the loop goes on deciding, and says why.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from tidegate.api.overload_spec import OverloadSpec, OverrideSpec
from tidegate.core.overload import words
from tidegate.core.overload.caps import Shares, why_never
from tidegate.core.overload.decision import Decision, Headroom
from tidegate.core.overload.draft import Draft


def held(spec: OverloadSpec, now: float) -> OverrideSpec | None:
    """Return the lever that holds at a time, None where there is none or it has lapsed."""
    lever = spec.override
    return lever if lever is not None and now < lever.until.timestamp() else None


def target(spec: OverloadSpec, previous: Decision, now: float) -> str:
    """Return the deployment that requests are or would be shifted to; empty where there is none.

    One that is shifted to stays it until the last of its share is given back, whoever named it: a
    lever that has lapsed, or another spec.
    """
    lever = held(spec, now)
    named = lever.to if lever is not None and lever.action == "Shift" else None
    if lever is None and previous.shift_percent and previous.lasts(now):
        named = previous.shift_to
    return named or (spec.shift.to if spec.shift else "")


def why_not(
    lever: OverrideSpec | None, to: str, headroom_of: Callable[[str], Headroom | None]
) -> str:
    """Say why a lever cannot be carried out at this tick; empty where it can, or there is none.

    A person may go beyond the loop's bounds; not to where requests would go in a circle or be lost.
    """
    if lever is None or lever.action != "Shift":
        return ""
    headroom = headroom_of(to)
    if headroom is not None and headroom.shifts == "elsewhere":
        return ""  # what was shifted once is served there
    return why_never(to, headroom)


def without(spec: OverloadSpec) -> OverloadSpec:
    """Return the spec as if nobody had set a lever."""
    return spec.model_copy(update={"override": None})


def shares(lever: OverrideSpec) -> Shares:
    """Return the shares that a lever sets at once, in whole percent.

    A part of one percent counts as a whole one: none at all would let everything in.
    """
    percent = math.ceil(lever.percent or 0)
    if lever.action == "Shed":
        return Shares(shed=percent)
    return Shares(shift=percent) if lever.action == "Shift" else Shares()


def refused(by_loop: Draft, lever: OverrideSpec, why: str) -> Draft:
    """Return what the loop has decided, with why it and not the lever holds."""
    return replace(
        by_loop,
        refused=why,
        message=words.refused(lever, why, by_loop.message),
        because=(f"{lever.action} is refused: {why}", *by_loop.because),
    )
