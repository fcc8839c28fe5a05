"""How much a target may be sent, by how it bore what it was sent before."""

from dataclasses import replace

from tidegate.core.overload.decision import Headroom, Timers
from tidegate.core.overload.pressed import Pressed
from tidegate.core.overload.release import PATIENCE_SECONDS, doubled_seconds


def heard(
    timers: Timers,
    target: str,
    headroom: Headroom | None,
    shift_percent: int,
    now: float,
    settle_seconds: float,
) -> Timers:
    """Return the timers with how a target bears the share that is shifted to it now.

    Args:
        timers: As they were.
        target: The deployment that is or would be shifted to.
        headroom: What it can take; None where that is not known.
        shift_percent: The share that it is sent.
        now: Seconds since 1970.
        settle_seconds: How long a share must hold to show in signals that are over no longer.
    """
    known = timers.pressed
    if known is not None and known.target != target:
        known = None
    is_pressed = headroom is not None and headroom.is_pressed and shift_percent > 0
    is_over = headroom is not None and headroom.stands == "over enter"
    let_in = shift_percent * (100 - headroom.shed_percent) // 100 if headroom else shift_percent
    if known is not None and known.is_now:
        has_shown = known.eased_at is not None and now - known.eased_at >= settle_seconds
        known = replace(
            known,
            borne=known.borne if has_shown else min(known.borne, let_in),
            at=now if is_pressed else known.at,
            is_now=is_pressed,
            eased_at=None if is_over else known.eased_at or now,
        )
    elif is_pressed:
        vain_tries = known.vain_tries + 1 if known else 0
        eased_at = None if is_over else now
        known = Pressed(
            target, shift_percent, let_in, now, eased_at=eased_at, vain_tries=vain_tries
        )
    return replace(timers, pressed=known)


def most_percent(timers: Timers, now: float) -> int:
    """Return the share up to which the target may be sent more; 100 where nothing bounds it.

    What was too much is tried again after a while, and after twice as long each time it was vain.
    """
    known = timers.pressed
    if known is None or now - known.at >= doubled_seconds(PATIENCE_SECONDS, known.vain_tries):
        return 100
    return known.safe_percent
