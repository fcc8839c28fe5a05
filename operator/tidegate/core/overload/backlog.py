"""How long the prompts that wait will take: their tokens over the pool's own speed of prefill.

The gates know it best: they count the tokens of each request that has no first token yet, be it
on a pod or in their own queues. Of a pool whose gates tell nothing, the engines' count of waiting
requests is the second source, each as long as a prefill took of late.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from tidegate.core.overload.readers import POOLS, Told
from tidegate.core.overload.rows import Figures, Place, Row, by_key
from tidegate.core.overload.samples import Scrapes, missing
from tidegate.core.overload.signal import Reading, Sample, Signal, Unknown

_Pods = Mapping[str, Figures]


def prefill_backlog(rows: Iterable[Row], scrapes: Scrapes) -> Iterator[Told]:
    """Tell the backlog of each pool in seconds."""
    pods: dict[tuple[Place, str], dict[str, Figures]] = {}
    pools: dict[tuple[Place, str], Figures] = {}
    gates: dict[Place, Figures] = {}
    for (place, (pool, pod)), figures in by_key(rows, "pool", "pod").items():
        if pod:
            pods.setdefault((place, pool), {})[pod] = figures
        elif pool:
            pools[place, pool] = figures
        else:
            gates[place] = figures
    for place, pool in dict.fromkeys((*pods, *pools)):
        if pool not in POOLS:
            continue
        reading = (
            _of_gates(
                pool,
                pods[place, pool],
                pools.get((place, pool), Figures()),
                gates.get(place),
                scrapes,
            )
            if (place, pool) in pods
            else _of_engines(pool, pools[place, pool], scrapes)
        )
        yield place, (pool, Signal.PREFILL_BACKLOG), reading


def _of_gates(
    pool: str, pods: _Pods, queue: Figures, gates: Figures | None, scrapes: Scrapes
) -> Reading:
    what = f"prefill backlog of pool {pool}"
    told, there = (gates.get("told"), gates.get("gates")) if gates else (None, None)
    if told is not None and there is not None and told < there:
        return missing(what, f"{told:.0f} of {there:.0f} gates are scraped")
    what_waits = f"prompt tokens that wait at the gates for pool {pool}"
    queued = scrapes.judge(what_waits, queue, queue.get("queued"), at="queued_at")
    if isinstance(queued, Unknown):
        return queued
    tokens, times = queued.value, [queued.at]
    for pod, figures in pods.items():
        reading = scrapes.judge(f"backlog of pod {pod}", figures, figures.get("tokens"))
        if isinstance(reading, Unknown):
            return reading
        tokens += reading.value
        times.append(reading.at)
    speed = _speed(pods)
    if tokens and not speed:
        return missing(what, f"{tokens:.0f} tokens wait, and no speed of prefill is known")
    return Sample(tokens / speed if tokens else 0.0, min(times))


def _speed(pods: _Pods) -> float:
    """Return the pool's tokens per second; a pod of unknown speed is as fast as the others."""
    told = [figures.get("speed") or 0.0 for figures in pods.values()]
    speeds = [speed for speed in told if speed > 0 and math.isfinite(speed)]
    return sum(speeds) / len(speeds) * len(pods) if speeds else 0.0


def _of_engines(pool: str, figures: Figures, scrapes: Scrapes) -> Reading:
    what = f"waiting requests of pool {pool}"
    waiting = scrapes.judge(what, figures, figures.get("waiting"), at="waiting_at")
    if isinstance(waiting, Unknown) or waiting.value == 0:
        return waiting
    seconds = figures.get("prefill")
    total = None if seconds is None else waiting.value * seconds
    return scrapes.judge(f"{what}, in seconds", figures, total, at="waiting_at")
