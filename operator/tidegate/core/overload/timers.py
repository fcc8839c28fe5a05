"""What the loop remembers from tick to tick, and how it comes about."""

from dataclasses import dataclass, replace

from tidegate.core.overload import demand, recent, release
from tidegate.core.overload.bracket import Bracket
from tidegate.core.overload.decision import Timers
from tidegate.core.overload.pressure import Pressure
from tidegate.core.overload.slew import TREND_SECONDS


@dataclass(frozen=True)
class Span:
    """How far back a look goes.

    Attributes:
        now: Seconds since 1970.
        window_seconds: What a rate of requests is a mean over.
        exit_after_seconds: `spec.overload.exitAfter`.
    """

    now: float
    window_seconds: float
    exit_after_seconds: float

    @property
    def remembers_seconds(self) -> float:
        """For how long the highest load counts: one that comes and goes within it is there."""
        return self.exit_after_seconds + self.window_seconds


def advanced(
    timers: Timers, pressure: Pressure, offered_per_second: float | None, span: Span
) -> Timers:
    """Return the timers after a look at the signals; what is unknown is neither over nor under."""
    rate, now, bracket = offered_per_second, span.now, timers.bracket
    return replace(
        timers,
        over_since=_since(timers.over_since, pressure.is_over, now),
        under_since=_since(timers.under_since, pressure.is_under, now),
        unknown_since=_since(timers.unknown_since, pressure.has_gaps, now),
        trail=_trail(timers.trail, pressure),
        offered=recent.with_one(timers.offered, rate, now, span.remembers_seconds),
        bracket=bracket.heard(rate, now, span.window_seconds) if bracket else None,
    )


def learned(timers: Timers, pressure: Pressure, before: int, after: int, span: Span) -> Timers:
    """Return the timers after the loop has moved the shares from one amount to another."""
    if after > before:
        return _raised(timers, pressure, before, after, span)
    if after == before:
        return timers
    if timers.is_trying:  # it has lasted: less is enough now
        return replace(timers, bracket=None, is_trying=False)
    return replace(timers, is_trying=after < release.borne_percent(timers))


def _raised(timers: Timers, pressure: Pressure, before: int, after: int, span: Span) -> Timers:
    """Take what had to be raised as too little, and the next amount as enough until it is not.

    On the way back up to what is known to be safe nothing is learned but that a try was vain.
    """
    cache = pressure.kv_usage
    if cache is not None and cache.is_over:
        demands = demand.assumed(timers.demands, cache, after, span.now, span.remembers_seconds)
        timers = replace(timers, demands=demands)
    if before < release.borne_percent(timers):
        vain = timers.vain_tries + int(timers.is_trying)
        return replace(timers, is_trying=False, vain_tries=vain)
    if pressure.is_queue_over:
        rate, is_retry = recent.newest(timers.offered), _is_retry(timers)
        timers = replace(timers, bracket=Bracket(before, after, span.now, is_retry, rate))
    return replace(timers, is_trying=False)


def _is_retry(timers: Timers) -> bool:
    """Tell whether a queue grows anew under what had been enough, or has done so before."""
    since, known = timers.over_since, timers.bracket
    if known is None or since is None:
        return False
    return known.is_retry or since > known.raised_at


def shown(timers: Timers, shift_percent: int, now: float, settle_seconds: float) -> Timers:
    """Return the timers with what a target's own figures have in them of what is shifted to it."""
    if now - timers.shifted_at < settle_seconds and shift_percent >= timers.shown_percent:
        return timers
    return replace(timers, shown_percent=shift_percent)


def shifted(timers: Timers, before: int, after: int, now: float) -> Timers:
    """Return the timers after the share that is shifted has moved from one amount to another."""
    return replace(timers, shifted_at=now) if after > before else timers


def forgotten(timers: Timers) -> Timers:
    """Return the timers once an overload is over: the next one is another."""
    return replace(timers, bracket=None, is_trying=False, vain_tries=0, pressed=None)


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _trail(
    trail: tuple[tuple[float, float], ...], pressure: Pressure
) -> tuple[tuple[float, float], ...]:
    """Add a newer sample; keep one that is as old as a trend needs, and those after it."""
    at, height = pressure.sampled_at(), pressure.height
    if at is None or height is None:
        return ()
    longer = (*trail, (at, height)) if not trail or at > trail[-1][0] else trail
    while len(longer) > 1 and at - longer[1][0] >= TREND_SECONDS:
        longer = longer[1:]
    return longer
