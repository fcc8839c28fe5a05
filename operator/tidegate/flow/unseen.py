"""Pods that serve and of which Prometheus tells nothing: the fullest of a pool may be one of them.

An engine that is too busy to be scraped is the one that matters; the rest would look calm.
"""

from collections.abc import Iterator
from typing import cast

from tidegate.api.gate_config import PoolName
from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload.decision import Tick
from tidegate.core.overload.samples import SCRAPES_UNTIL_STALE, missing
from tidegate.core.overload.signal import TRIGGERS, Key, Reading, Sample, Signal
from tidegate.core.status.conditions import parse_time
from tidegate.flow import gather, slices
from tidegate.flow.ports import Cluster, Document, Metrics, Ref


def mark(
    signals: dict[Key, Reading],
    ref: Ref,
    spec: OverloadSpec,
    cluster: Cluster,
    metrics: Metrics,
    tick: Tick,
    now: float,
) -> None:
    """Make the use of a pool's KV cache unknown where a pod of it is not seen.

    Not where the pods that are seen are over `enter` already: the pool is over it all the same.
    """
    for pool, pod in _unseen(ref, cluster, metrics, tick, now):
        key: Key = pool, Signal.KV_USAGE
        reading = signals.get(key)
        if isinstance(reading, Sample) and reading.value < spec.kv_usage.enter:
            why = f"pod {pod} is ready and Prometheus has no sample of it"
            signals[key] = missing(f"{key[1]} of pool {pool}", why)


def _unseen(
    ref: Ref, cluster: Cluster, metrics: Metrics, tick: Tick, now: float
) -> Iterator[tuple[PoolName, str]]:
    """Yield pods that have been ready for as long as a sample may be old."""
    enough = SCRAPES_UNTIL_STALE * tick.scrape_interval_seconds
    for pod in slices.ready_pods(cluster.owned("Pod", ref)):
        name = pod["metadata"]["name"]
        if gather.is_gate(pod) or metrics.has_sample(ref, name):
            continue
        pool = cast(PoolName, slices.pool_of(pod))
        since = _ready_since(pod)
        if Signal.KV_USAGE in TRIGGERS.get(pool, ()) and since and now - since > enough:
            yield pool, name


def _ready_since(pod: Document) -> float | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    times = (entry.get("lastTransitionTime") for entry in found if entry.get("type") == "Ready")
    return parse_time(next(times, None))
