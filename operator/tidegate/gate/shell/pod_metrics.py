"""What is shown of pods and the queue, made from the core's view at each read.

Nothing is kept between two reads, so a pod that is gone leaves no series behind.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.gate.exchange import PodView, View

_POD = ("pod", "pool")
_FAMILIES: Sequence[tuple[str, str, Callable[[PodView], float | None]]] = (
    (
        "tokens_reserved",
        "KV tokens that this gate has reserved on a pod.",
        lambda pod: pod.reserved_tokens,
    ),
    (
        "tokens_capacity",
        "KV tokens of a pod that are this gate's to give.",
        lambda pod: pod.capacity_tokens,
    ),
    (
        "blocks_reserved",
        "KV blocks that this gate has reserved on a pod.",
        lambda pod: pod.reserved_blocks,
    ),
    (
        "blocks_capacity",
        "KV blocks of a pod that are this gate's to give.",
        lambda pod: pod.capacity_blocks,
    ),
    ("seats", "Requests that this gate has on a pod.", lambda pod: pod.seated),
    (
        "prefill_backlog_tokens",
        "Prompt tokens on their way to a first token.",
        lambda pod: pod.prefill_backlog_tokens,
    ),
    (
        "prefill_tokens_per_second",
        "Speed of prefill that is reckoned with.",
        lambda pod: pod.prefill_tokens_per_second,
    ),
    ("pod_ejected", "1 while a pod gets nothing after failures.", lambda pod: pod.ejected),
    (
        "pod_terminating",
        "1 while a pod gets nothing since it is going.",
        lambda pod: pod.pod.terminating,
    ),
    (
        "scrape_age_seconds",
        "Since a pod told how full its KV cache is; absent: never.",
        lambda pod: pod.scrape_age_seconds,
    ),
    (
        "kv_usage",
        "How full a pod's KV cache is by its own metrics, 0 to 1, as a mean of 5 s; absent: not "
        "told of late.",
        lambda pod: pod.kv_usage,
    ),
)


class Affinity(Protocol):
    """Whether it pays to send equal prefixes to one pod."""

    def hit_rate(self, pod: str) -> float | None:
        """Return the share of a pod's prompt tokens that were cached; None when not known."""

    def affinity_pays(self) -> bool | None:
        """Tell whether it pays over all pods; None while too little is known."""


class PodMetrics(Collector):
    """The families of a `View`, and of prefix affinity."""

    def __init__(self, view: Callable[[], View], affinity: Affinity) -> None:
        self._view = view
        self._affinity = affinity

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Say nothing, so that registering this asks for no view."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families as they are now."""
        view = self._view()
        yield from self._pods(view)
        yield from self._prefixes(view)
        queue = GaugeMetricFamily(
            "tidegate_gate_queue_length", "Requests that wait for a seat.", labels=("class",)
        )
        for priority, count in view.queued_by_priority.items():
            queue.add_metric((str(priority),), count)
        yield queue
        yield _queued_prompts(view)
        yield GaugeMetricFamily(
            "tidegate_gate_shed_percent", "Share that is turned away now.", view.shed_percent
        )
        yield GaugeMetricFamily(
            "tidegate_gate_shift_percent", "Share that goes elsewhere now.", view.shift_percent
        )

    def _pods(self, view: View) -> Iterator[GaugeMetricFamily]:
        for name, documentation, read in _FAMILIES:
            family = GaugeMetricFamily(f"tidegate_gate_{name}", documentation, labels=_POD)
            for pod in view.pods:
                value = read(pod)
                if value is not None:
                    family.add_metric((pod.pod.name, pod.pod.pool), float(value))
            yield family

    def _prefixes(self, view: View) -> Iterator[GaugeMetricFamily]:
        rates = GaugeMetricFamily(
            "tidegate_gate_prefix_hit_ratio",
            "Prompt tokens that a pod had in its prefix cache, of late; absent: not known.",
            labels=_POD,
        )
        for entry in view.pods:
            rate = self._affinity.hit_rate(entry.pod.name)
            if rate is not None:
                rates.add_metric((entry.pod.name, entry.pod.pool), rate)
        yield rates
        pays = GaugeMetricFamily(
            "tidegate_gate_affinity_pays",
            "1 where sending equal prefixes to one pod pays, 0 where not; absent: not known.",
        )
        told = self._affinity.affinity_pays()
        if told is not None:
            pays.add_metric((), float(told))
        yield pays


def _queued_prompts(view: View) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tidegate_gate_queued_prompt_tokens",
        "Prompt tokens of the requests that wait for a seat.",
        labels=("pool",),
    )
    for pool, tokens in view.queued_prompt_tokens.items():
        family.add_metric((pool,), tokens)
    return family


def document(view: View) -> dict[str, Any]:
    """Return the view as `/podz` tells it."""
    return {
        "queued": view.queued,
        "queuedByClass": {str(key): count for key, count in view.queued_by_priority.items()},
        "queuedPromptTokens": dict(view.queued_prompt_tokens),
        "shedPercent": view.shed_percent,
        "shiftPercent": view.shift_percent,
        "pods": [_pod(entry) for entry in view.pods],
    }


def _pod(entry: PodView) -> dict[str, Any]:
    pod = entry.pod
    return {
        "name": pod.name,
        "address": pod.address,
        "pool": pod.pool,
        "revision": pod.revision,
        "slice": pod.slice_name,
        "terminating": pod.terminating,
        "ejected": entry.ejected,
        "reservedTokens": entry.reserved_tokens,
        "capacityTokens": entry.capacity_tokens,
        "reservedBlocks": entry.reserved_blocks,
        "capacityBlocks": entry.capacity_blocks,
        "requests": entry.seated,
        "prefillBacklogTokens": entry.prefill_backlog_tokens,
        "prefillTokensPerSecond": entry.prefill_tokens_per_second,
        "scrapeAgeSeconds": entry.scrape_age_seconds,
        "kvUsage": entry.kv_usage,
    }
