"""The signals that engines and gates tell of directly: from figures to what is known."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidegate.api.gate_config import PoolName
from tidegate.core.overload.rows import Place, Row, by_key
from tidegate.core.overload.samples import SHARE, Scrapes, missing
from tidegate.core.overload.signal import Key, Reading, Sample, Signal, Unknown

POOLS: tuple[PoolName, ...] = ("unified", "prefill", "decode")
LEAST_SAMPLES = 20
"""A p95 of fewer answers is their slowest one."""

_BY_GATES = frozenset(("seen", "seen_at"))
"""Figures of a pod that its gates told."""

Told = tuple[Place, Key, Reading]


def kv_usage(rows: Iterable[Row], scrapes: Scrapes) -> Iterator[Told]:
    """Tell the fullest engine of each pool, and the mean; one that is unknown may be the fullest.

    The time is the oldest sample's.
    """
    engines: dict[tuple[Place, PoolName], list[Reading]] = {}
    seen: dict[tuple[Place, PoolName], list[Sample]] = {}
    for (place, (pool, pod, engine)), figures in by_key(rows, "pool", "pod", "engine").items():
        if pool not in POOLS:
            continue
        what = f"use of the KV cache of pod {pod}{f' engine {engine}' if engine else ''}"
        by_gates = scrapes.judge(what, figures, figures.get("seen"), SHARE, at="seen_at")
        if isinstance(by_gates, Sample):
            seen.setdefault((place, pool), []).append(by_gates)
        if not figures.values.keys() <= _BY_GATES:
            reading = scrapes.judge(what, figures, figures.get("value"), SHARE)
            engines.setdefault((place, pool), []).append(reading)
    for (place, pool_name), readings in engines.items():
        most, mean = _over(readings, seen.get((place, pool_name), ()))
        yield place, (pool_name, Signal.KV_USAGE), most
        yield place, (pool_name, Signal.KV_USAGE_MEAN), mean


def _over(readings: Sequence[Reading], seen: Sequence[Sample]) -> tuple[Reading, Reading]:
    """Return the highest of all, and the mean of the engines' own samples.

    Gates have looked between two scrapes. They are heard where every engine tells of itself: what
    is not scraped is not known, whoever else has seen it.
    """
    unknown = next((each for each in readings if isinstance(each, Unknown)), None)
    if unknown is not None:
        return unknown, unknown
    known = [each for each in readings if isinstance(each, Sample)]
    values, oldest = [each.value for each in known], min(each.at for each in (*known, *seen))
    most = max(each.value for each in (*known, *seen))
    return Sample(most, oldest), Sample(sum(values) / len(values), min(each.at for each in known))


def preemptions(rows: Iterable[Row], scrapes: Scrapes) -> Iterator[Told]:
    """Tell how many requests each pool preempted in a minute."""
    for (place, (pool,)), figures in by_key(rows, "pool").items():
        if pool in POOLS:
            key: Key = pool, Signal.PREEMPTIONS
            value = figures.get("value")
            yield place, key, scrapes.judge(f"preemptions of pool {pool}", figures, value)


def prefix_hits(rows: Iterable[Row], scrapes: Scrapes) -> Iterator[Told]:
    """Tell the share of prompt tokens that each pool had in its prefix caches."""
    for (place, (pool,)), figures in by_key(rows, "pool").items():
        if pool not in POOLS:
            continue
        what = f"prefix hits of pool {pool}"
        key: Key = pool, Signal.PREFIX_HIT_RATE
        asked, had = figures.get("asked"), figures.get("had")
        if asked == 0:
            yield place, key, missing(what, "no prompt came of late")
            continue
        # both are extrapolated, so that all of them can come out as a little more than all
        share = None if asked is None or had is None else min(had, asked) / asked
        yield place, key, scrapes.judge(what, figures, share, SHARE)


def latency(
    signal: Signal,
    applies_to: Iterable[PoolName],
    rows: Iterable[Row],
    pools: Mapping[Place, frozenset[PoolName]],
    scrapes: Scrapes,
) -> Iterator[Told]:
    """Tell a quantile that gates measure for a deployment, as of the pool that makes it."""
    for (place, _), figures in by_key(rows).items():
        samples = figures.get("samples") or 0.0
        if not samples >= LEAST_SAMPLES:  # nor is NaN
            why = f"{samples:.0f} answers of late, a quantile needs {LEAST_SAMPLES}"
            reading: Reading = missing(f"{signal}", why)
        else:
            reading = scrapes.judge(f"{signal}", figures, figures.get("value"))
        for pool in pools[place].intersection(applies_to):
            yield place, (pool, signal), reading
