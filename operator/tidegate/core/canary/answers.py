"""From the answers to range queries to evidence on a revision; what is absent stays unknown."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.analysis.evidence import Evidence, Histogram, Metric
from tidegate.core.canary.questions import METRICS_OF, TOLD_APART_BY, Family, Window

_BAD = frozenset({"engine-failed", "engine-full", "unreachable", "deadline"})
"""Outcomes of requests that a revision's engines had, and did not serve by no fault of the client.

A gate that stops cuts the streams of all revisions (`gate-gone`), which tells nothing of one.
"""
_GOOD = "finished"
_REFUSED = "engine-refused"
_ABANDONED = "abandoned"
"""Gates of a version before count these with the clients that left later: it is not known then."""


class Unreadable(Exception):
    """An answer that is no range vector; the message says where it is off, not what it says."""


@dataclass(frozen=True)
class Series:
    """One series of a range vector: values by the end of their interval."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


def parse(result: object) -> tuple[Series, ...]:
    """Read the `result` of a range query; samples that are no number are left out.

    Raises:
        Unreadable: It is not a range vector.
    """
    if not isinstance(result, list):
        raise Unreadable("the result is no list")
    return tuple(_series(entry) for entry in result)


def _series(entry: object) -> Series:
    labels = entry.get("metric") if isinstance(entry, dict) else None
    values = entry.get("values") if isinstance(entry, dict) else None
    if not isinstance(labels, dict) or not isinstance(values, list):
        raise Unreadable("a series has no metric or no values")
    return Series({str(k): str(v) for k, v in labels.items()}, dict(_samples(values)))


def _samples(values: list[object]) -> Iterator[tuple[float, float]]:
    for sample in values:
        if not isinstance(sample, list) or len(sample) != 2:
            raise Unreadable("a sample is no pair")
        try:
            at, value = float(sample[0]), float(sample[1])
        except (TypeError, ValueError):
            raise Unreadable("a sample has no number") from None
        if math.isfinite(at) and math.isfinite(value):
            yield at, max(0.0, value)


def evidence(
    answers: Mapping[Family, tuple[Series, ...]], window: Window, revision: str
) -> tuple[Evidence, ...]:
    """Return what the answers tell of one revision, an entry for each interval."""
    own = {
        family: [one for one in series if one.labels.get("revision") == revision]
        for family, series in answers.items()
    }
    faults = dict(_faults(own))
    clear = {
        family: series for family, series in own.items() if not faults.keys() & METRICS_OF[family]
    }
    count = round((window.last_end - window.first_end) / window.seconds) + 1
    ends = (window.first_end + window.seconds * number for number in range(count))
    return tuple(_interval(clear, end, window.seconds, faults) for end in ends)


def _faults(own: Mapping[Family, list[Series]]) -> Iterator[tuple[Metric, str]]:
    """Yield what cannot be judged since series of its family are not told apart: none is chosen."""
    for family, series in own.items():
        label = TOLD_APART_BY[family]
        found = Counter(one.labels.get(label, "") for one in series)
        several = sorted(value for value, count in found.items() if count > 1)
        for metric in METRICS_OF[family] if several else ():
            yield (
                metric,
                (
                    f"{found[several[0]]} series where one was expected: "
                    f'{family} of {label}="{several[0]}"'
                ),
            )


def _interval(
    own: Mapping[Family, list[Series]], end: float, seconds: int, faults: Mapping[Metric, str]
) -> Evidence:
    at = float(round(end))
    outcomes = _values(own, "requests", at)
    prefix = _values(own, "prefix", at)
    preempted = _values(own, "preemptions", at)
    memory = _values(own, "memory", at)
    return Evidence(
        at=at - seconds,
        seconds=float(seconds),
        # a family that tells of a revision at all is told in full: an outcome without a series
        # has not happened yet
        ended_well=outcomes.get(_GOOD, 0.0) if outcomes else None,
        ended_badly=sum(outcomes.get(name, 0.0) for name in _BAD) if outcomes else None,
        refused=outcomes.get(_REFUSED, 0.0) if outcomes else None,
        abandoned=outcomes.get(_ABANDONED),
        ttft=_histogram(_values(own, "ttft", at)),
        tpot=_histogram(_values(own, "tpot", at)),
        preemptions=sum(preempted.values()) if preempted else None,
        prefix_hit_tokens=prefix.get("hits"),
        prefix_query_tokens=prefix.get("queries"),
        memory_bytes=max(memory.values()) if memory else None,
        faults=faults,
    )


def _values(own: Mapping[Family, list[Series]], family: Family, at: float) -> dict[str, float]:
    """Return a family's values at a time, by the label that tells its series apart."""
    label = TOLD_APART_BY[family]
    series = own.get(family, [])
    return {one.labels.get(label, ""): one.values[at] for one in series if at in one.values}


def _histogram(told: Mapping[str, float]) -> Histogram | None:
    """Return a histogram from cumulated buckets; extrapolation may leave them not quite rising."""
    try:
        buckets = {float(le): count for le, count in told.items()}
    except ValueError:
        raise Unreadable("a bucket's bound is no number") from None
    bounds = sorted(buckets)
    if not bounds or bounds[-1] != math.inf:
        return None
    counts, below = [], 0.0
    for bound in bounds:
        upto = max(below, buckets[bound])
        counts.append(upto - below)
        below = upto
    return Histogram(tuple(bounds[:-1]), tuple(counts))
