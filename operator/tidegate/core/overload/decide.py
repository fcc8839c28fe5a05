"""What the slow loop does about a deployment: from its spec, signals and past to its shares.

Pure: the same input gives the same decision. See docs/concepts/overload.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from tidegate.api.overload_spec import OverloadSpec, OverrideSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import (
    allowed,
    caps,
    clock,
    demand,
    draft,
    lever,
    look,
    pressure,
    queries,
    spill,
    timers,
    words,
)
from tidegate.core.overload.decision import Decision, Headroom, Tick, Timers, Traffic
from tidegate.core.overload.draft import Draft
from tidegate.core.overload.lever import target
from tidegate.core.overload.look import DWELL_SECONDS, Look
from tidegate.core.overload.signal import Signals
from tidegate.core.overload.slew import Motion
from tidegate.core.overload.timers import Span

__all__ = ["DWELL_SECONDS", "decide"]

_UNKNOWN = Traffic()


def decide(
    spec: OverloadSpec,
    signals: Signals,
    headroom_of: Callable[[str], Headroom | None],
    previous: Decision,
    remembered: Timers,
    now: float,
    tick: Tick,
    traffic: Traffic = _UNKNOWN,
) -> tuple[Decision, Timers]:
    """Return what holds from now on, and what to remember; the same value while nothing happens.

    Args:
        spec: `spec.overload`.
        signals: What is known of the deployment's pools; empty where nothing is.
        headroom_of: What another deployment can take; None where that is unknown.
        previous: The last decision, or what `restore` made of the status.
        remembered: What the last decision left to remember.
        now: Seconds since 1970.
        tick: How often this is asked, at data how old.
        traffic: What comes to the deployment's gates.
    """
    previous, remembered = clock.decided(previous, now), clock.remembered(remembered, now)
    seen = pressure.read(spec, signals)
    span = Span(now, queries.window_seconds(tick.scrape_interval_seconds), spec.exit_after)
    kept = timers.advanced(remembered, seen, traffic.offered_per_second, span)
    kept = replace(kept, allowed=allowed.of_spec(spec))
    by, to = lever.held(spec, now), target(spec, previous, now)
    why_not = lever.why_not(by, to, headroom_of)
    if by is not None and not why_not:
        return draft.settled(_by_lever(by, to, tick), previous, now), kept
    to = target(lever.without(spec), previous, now)
    headroom = headroom_of(to) if to else None
    held = look.held(previous, now)
    motion = Motion(seen, kept, previous.changed_at, now, spec.enter_after, tick)
    demands = demand.seen(motion, held.total, traffic.admitted_part, span.remembers_seconds)
    kept = timers.shown(replace(kept, demands=demands), held.shift, now, motion.settle_seconds)
    kept = spill.heard(kept, to, headroom, held.shift, now, motion.settle_seconds)
    bounds = caps.caps(
        allowed.of_spec(spec),
        remembered.allowed,
        to,
        headroom,
        held,
        coming=held.shift - kept.shown_percent,
        borne=spill.most_percent(kept, now),
    )
    made = Look(spec, replace(motion, timers=kept), previous, held, bounds, to).draft()
    if made.state == "Normal" and not made.shares.total:
        kept = timers.forgotten(kept)
    kept = timers.learned(kept, seen, bounds.kept.total, made.shares.total, span)
    kept = timers.shifted(kept, held.shift, made.shares.shift, now)
    if by is not None:
        made = lever.refused(made, by, why_not)
    return draft.settled(made, previous, now), kept


def _by_lever(by: OverrideSpec, to: str, tick: Tick) -> Draft:
    """Return what a person has set.

    Gates keep it for a while beyond its end: the loop gives back in steps what a lever kept out.
    """
    shares = lever.shares(by)
    lapses = math.ceil(by.until.timestamp() + tick.ttl_seconds)
    message = words.lever(by, shares, to)
    return Draft("Override", shares, to, Reason.OVERRIDE_ACTIVE, message, float(lapses))
