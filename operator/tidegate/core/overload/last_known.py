"""One scrape that failed, one question without an answer: what was known just before holds on.

It is gone by with its own age, and only for as long as a sample may be old: then the signal is
unknown. A series that says what cannot be (no number, two of the same, a wrong time) is not
missing, and is told at once.
"""

from collections.abc import Mapping

from tidegate.api.reasons import Reason
from tidegate.core.overload.decision import Tick
from tidegate.core.overload.samples import MOST_AHEAD_SECONDS, SCRAPES_UNTIL_STALE
from tidegate.core.overload.signal import TRIGGERS, Key, Reading, Sample, Signals, Unknown

_MISSES = frozenset((Reason.METRICS_MISSING, Reason.METRICS_UNREACHABLE, Reason.METRICS_UNREADABLE))
"""Nothing was told: neither a value nor a lie."""


def bridged(signals: Signals, before: Signals, now: float, tick: Tick) -> dict[Key, Reading]:
    """Return the signals, with the last sample of each that decides and was missed this time.

    Args:
        signals: What this tick was told.
        before: What the last tick went by; a sample that it had held on itself is among it.
        now: Seconds since 1970.
        tick: How often samples come.
    """
    oldest = now - SCRAPES_UNTIL_STALE * tick.scrape_interval_seconds
    within = oldest, now + MOST_AHEAD_SECONDS
    return {
        key: _last(before, key, within) or reading if _is_missed(key, reading) else reading
        for key, reading in signals.items()
    }


def _is_missed(key: Key, reading: Reading) -> bool:
    pool, signal = key
    return isinstance(reading, Unknown) and reading.reason in _MISSES and signal in TRIGGERS[pool]


def _last(before: Mapping[Key, Reading], key: Key, within: tuple[float, float]) -> Sample | None:
    """Return the last sample, of a time within two; the clock may have been set back since."""
    reading = before.get(key)
    if isinstance(reading, Sample) and within[0] <= reading.at <= within[1]:
        return reading
    return None
