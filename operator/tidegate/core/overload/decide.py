"""What the slow loop does about a deployment: from its spec, signals and past to its shares.

Pure: the same input gives the same decision. See docs/concepts/overload.md.
"""

import math

from tidegate.api.overload_spec import OverloadSpec, OverrideSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import caps, draft, lever, look, pressure, timers, words
from tidegate.core.overload.decision import Decision, Headroom, Tick, Timers
from tidegate.core.overload.draft import Draft
from tidegate.core.overload.lever import target
from tidegate.core.overload.look import DWELL_SECONDS, Look
from tidegate.core.overload.signal import Signals

__all__ = ["DWELL_SECONDS", "decide", "target"]


def decide(
    spec: OverloadSpec,
    signals: Signals,
    headroom: Headroom | None,
    previous: Decision,
    remembered: Timers,
    now: float,
    tick: Tick,
) -> tuple[Decision, Timers]:
    """Return what holds from now on, and what to remember; the same value while nothing happens.

    Args:
        spec: `spec.overload`.
        signals: What is known of the deployment's pools; empty where nothing is.
        headroom: What the deployment `target(spec, now)` can take; None where that is unknown.
        previous: The last decision, or what `restore` made of the status.
        remembered: What the last decision left to remember.
        now: Seconds since 1970.
        tick: How often this is asked, at data how old.
    """
    seen = pressure.read(spec, signals)
    kept = timers.advanced(remembered, seen, now)
    to = target(spec, now)
    by = lever.held(spec, now)
    if by is not None:
        return draft.settled(_by_lever(by, to, headroom, tick), previous, now), kept
    held = look.held(previous, to, now)
    bounds = caps.caps(spec, to, headroom, held)
    made = Look(spec, seen, kept, previous, held, bounds, to, now, tick).draft()
    if made.state == "Normal" and not made.shares.total:
        kept = timers.forgotten(kept)
    kept = timers.learned(kept, held.total, made.shares.total, spec.exit_after)
    return draft.settled(made, previous, now), kept


def _by_lever(by: OverrideSpec, to: str, headroom: Headroom | None, tick: Tick) -> Draft:
    """Return what a person has set.

    Gates keep it for a while beyond its end: the loop gives back in steps what a lever kept out.
    """
    shares, why_not = lever.shares(by, to, headroom)
    lapses = math.ceil(by.until.timestamp() + tick.ttl_seconds)
    message = words.lever(by, shares, to, why_not)
    return Draft("Override", shares, to, Reason.OVERRIDE_ACTIVE, message, float(lapses))
