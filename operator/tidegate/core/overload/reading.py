"""From the answers of Prometheus to what is known of each deployment's pools."""

from collections.abc import Iterable, Mapping

from tidegate.api.gate_config import PoolName
from tidegate.core.overload import queries, readers
from tidegate.core.overload.backlog import prefill_backlog
from tidegate.core.overload.readers import POOLS, Told
from tidegate.core.overload.rows import Answer, Place, Row
from tidegate.core.overload.samples import Scrapes, missing
from tidegate.core.overload.signal import Key, Reading, Signal, Signals, Unknown

_DECODING: frozenset[PoolName] = frozenset(("unified", "decode"))
_PREFILLING: frozenset[PoolName] = frozenset(("unified", "prefill"))

_SOURCES: Mapping[Signal, tuple[queries.Name, frozenset[PoolName]]] = {
    Signal.KV_USAGE: ("kv", _DECODING),
    Signal.KV_USAGE_MEAN: ("kv", _DECODING),
    Signal.PREFILL_BACKLOG: ("backlog", _PREFILLING),
    Signal.PREEMPTIONS: ("preemptions", _DECODING),
    Signal.TTFT: ("ttft", _PREFILLING),
    Signal.TPOT: ("tpot", _DECODING),
    Signal.PREFIX_HIT_RATE: ("prefix", _PREFILLING),
}
"""By which question each signal is known, and the pools that it says something of."""


def signals(
    answers: Mapping[queries.Name, Answer],
    now: float,
    scrape_interval_seconds: float,
    took_seconds: float = 0.0,
) -> dict[Place, Signals]:
    """Return what is known of every deployment of which anything was told.

    Each signal that applies to a pool is there, known or not. A question that failed leaves its
    own signals unknown and no others.
    """
    pools = _pools(answers.values())
    scrapes = Scrapes(now, scrape_interval_seconds, took_seconds)
    found: dict[Place, dict[Key, Reading]] = {
        place: {
            (pool, signal): _why_not(signal, pool, answers.get(name))
            for signal, (name, applies_to) in _SOURCES.items()
            for pool in applies_to & named
        }
        for place, named in pools.items()
    }
    for name, answer in answers.items():
        for place, key, reading in (
            () if isinstance(answer, Unknown) else _read(name, answer, pools, scrapes)
        ):
            if key in found[place]:
                found[place][key] = reading
    return dict(found)


def _why_not(signal: Signal, pool: PoolName, answer: Answer | None) -> Unknown:
    return answer if isinstance(answer, Unknown) else missing(f"{signal} of pool {pool}")


def _pools(answers: Iterable[Answer]) -> dict[Place, frozenset[PoolName]]:
    """Return the pools of each deployment that any answer names."""
    found: dict[Place, set[PoolName]] = {}
    for answer in answers:
        for row in () if isinstance(answer, Unknown) else answer:
            named = found.setdefault(row.place, set())
            if row.pool in POOLS:
                named.add(row.pool)
    return {place: frozenset(named) for place, named in found.items()}


def _read(
    name: queries.Name,
    rows: tuple[Row, ...],
    pools: Mapping[Place, frozenset[PoolName]],
    scrapes: Scrapes,
) -> Iterable[Told]:
    match name:
        case "kv":
            return readers.kv_usage(rows, scrapes)
        case "backlog":
            return prefill_backlog(rows, scrapes)
        case "preemptions":
            return readers.preemptions(rows, scrapes)
        case "ttft":
            return readers.latency(Signal.TTFT, _PREFILLING, rows, pools, scrapes)
        case "tpot":
            return readers.latency(Signal.TPOT, _DECODING, rows, pools, scrapes)
        case "prefix":
            return readers.prefix_hits(rows, scrapes)
        case "load":
            return ()
