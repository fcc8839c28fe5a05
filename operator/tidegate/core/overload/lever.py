"""The lever of the one on call: it holds instead of the loop until it lapses."""

from tidegate.api.overload_spec import OverloadSpec, OverrideSpec
from tidegate.core.overload.caps import Shares, why_never
from tidegate.core.overload.decision import Decision, Headroom


def held(spec: OverloadSpec, now: float) -> OverrideSpec | None:
    """Return the lever that holds at a time, None where there is none or it has lapsed."""
    lever = spec.override
    return lever if lever is not None and now < lever.until.timestamp() else None


def target(spec: OverloadSpec, previous: Decision, now: float) -> str:
    """Return the deployment that requests are or would be shifted to; empty where there is none.

    It is the one whose headroom `decide` is to be given. One that is shifted to stays it until the
    last of its share is given back, whoever named it: a lever that has lapsed, or another spec.
    """
    lever = held(spec, now)
    named = lever.to if lever is not None and lever.action == "Shift" else None
    if lever is None and previous.shift_percent and previous.lasts(now):
        named = previous.shift_to
    return named or (spec.shift.to if spec.shift else "")


def shares(lever: OverrideSpec, to: str, headroom: Headroom | None) -> tuple[Shares, str]:
    """Return the shares that a lever sets at once, and why they are not what it says.

    A person may go beyond the loop's bounds; not to where requests would go in a circle or be lost.
    """
    percent = round(lever.percent or 0)
    if lever.action == "Shed":
        return Shares(shed=percent), ""
    if lever.action == "Open":
        return Shares(), ""
    why = why_never(to, headroom)
    return (Shares(), why) if why else (Shares(shift=percent), "")
