"""Which pods of a pool get less than their share, or nothing: new ones, and those that fail.

A pod is left out after failures in a row, at once when nobody answers at its address, and when
its time to first token is far over that of the others. It comes back by itself, slowly, as a new
one does; one failure then leaves it out again, for longer. Never more than half of a pool is left
out: when everything fails, something else is wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

FAILURES_IN_A_ROW = 3
EJECTED_SECONDS = 5.0
UNREACHABLE_SECONDS = 1.0
"""An address that refuses is tried again soon: a container restarts within seconds."""
LONGEST_EJECTION_SECONDS = 60.0
_MOST_DOUBLINGS = 10
"""Beyond the longest ejection from any first one; no float bears one for each of a day's."""
SLOW_START_SECONDS = 30.0
SLOW_START_LEAST = 0.1
PROVEN_BY = 5
"""Good answers after which an ejected pod is as good as any."""
OUTLIER_FACTOR = 5.0
OUTLIER_SECONDS = 1.0
"""A pod's mean TTFT must be over the median by both: small times differ by any factor."""
_TTFT_RATE = 0.2
_TTFT_SAMPLES = 10


@dataclass(slots=True)
class _Record:
    """What is known of a pod; `since` is when it came, or came back."""

    since: float
    failures: int = 0
    ejections: int = 0
    ejected_until: float = float("-inf")
    proven: int = 0
    ttft_seconds: float = 0.0
    ttft_samples: int = 0
    credit: float = 0.0


class Health:
    """The pods of one pool that share its traffic."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._settled_at = float("-inf")

    def present(self, names: Iterable[str], now: float) -> None:
        """Take the ready pods, all of them; one that was away begins anew."""
        known = self._records
        self._records = {name: known.get(name) or _Record(now) for name in names}
        if self._records.keys() - known.keys():
            self._settle_after(now)

    def is_settled(self, now: float) -> bool:
        """Tell whether all pods are to be treated alike: none is new, ejected or just back."""
        return now >= self._settled_at

    def is_ejected(self, name: str, now: float) -> bool:
        """Tell whether a pod gets nothing."""
        record = self._records.get(name)
        return record is not None and now < record.ejected_until

    def share(self, name: str, now: float) -> float:
        """Return the part of its share that a pod gets so far, 0.1 to 1."""
        record = self._records.get(name)
        if record is None:
            return 1.0
        age = (now - record.since) / SLOW_START_SECONDS
        return min(1.0, max(SLOW_START_LEAST, age))

    def lets(self, name: str, share: float) -> bool:
        """Tell, for `share` of the calls, that a pod is to be treated as any other."""
        record = self._records.get(name)
        if record is None or share >= 1:
            return True
        record.credit += share
        if record.credit < 1:
            return False
        record.credit -= 1
        return True

    def succeeded(self, name: str, ttft_seconds: float | None, now: float) -> None:
        """A pod answered well; `ttft_seconds` where it was measured."""
        record = self._records.get(name)
        if record is None:
            return
        record.failures = 0
        if record.ejections:
            record.proven += 1
            if record.proven >= PROVEN_BY:
                record.ejections = record.proven = 0
        if ttft_seconds is None:
            return
        rate = max(_TTFT_RATE, 1 / (record.ttft_samples + 1))
        record.ttft_seconds += rate * (ttft_seconds - record.ttft_seconds)
        record.ttft_samples += 1
        if record.ttft_seconds > OUTLIER_SECONDS and self._is_outlier(name, record):
            self._eject(record, EJECTED_SECONDS, now)

    def failed(self, name: str, now: float, *, unreachable: bool = False) -> None:
        """A pod failed; `unreachable` when there was no connection."""
        record = self._records.get(name)
        if record is None or now < record.ejected_until:
            return
        record.failures += 1
        if unreachable:
            self._eject(record, UNREACHABLE_SECONDS, now)
        elif record.ejections or record.failures >= FAILURES_IN_A_ROW:
            self._eject(record, EJECTED_SECONDS, now)

    def _is_outlier(self, name: str, record: _Record) -> bool:
        others = [
            other.ttft_seconds
            for key, other in self._records.items()
            if key != name and other.ttft_samples >= _TTFT_SAMPLES
        ]
        if record.ttft_samples < _TTFT_SAMPLES or not others:
            return False
        usual = median(others)
        return record.ttft_seconds > max(OUTLIER_FACTOR * usual, usual + OUTLIER_SECONDS)

    def _eject(self, record: _Record, seconds: float, now: float) -> None:
        """Leave a pod out, if half of the pool stays."""
        out = sum(now < other.ejected_until for other in self._records.values())
        if 2 * (out + 1) > len(self._records):
            return
        doublings = min(record.ejections, _MOST_DOUBLINGS)
        lasts = min(seconds * 2**doublings, LONGEST_EJECTION_SECONDS)
        record.ejections += 1
        record.ejected_until = record.since = now + lasts
        record.failures = record.proven = record.ttft_samples = 0
        record.credit = record.ttft_seconds = 0.0
        self._settle_after(record.ejected_until)

    def _settle_after(self, moment: float) -> None:
        self._settled_at = max(self._settled_at, moment + SLOW_START_SECONDS)
