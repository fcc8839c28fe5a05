"""The families of the gate's metrics, told in docs/reference/gate-metrics.md.

No label has a client's choice of values: models and revisions come from the configuration, and
there is no label for tenants. What is shown of pods is made at each read (`pod_metrics.py`).
"""

from collections.abc import Collection, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from tidegate.gate.shell.series import Counter, Histogram

_STEPS = (1, 1.2, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7.5, 9)
"""Bounds of one decade, at most a quarter apart: a canary that is a tenth slower shows, and what
meets an objective by more than a quarter is never read as late."""
TTFT_BOUNDS = (
    0.005,
    *(round(step * decade, 4) for decade in (0.01, 0.1, 1.0, 10.0) for step in _STEPS),
    *(100, 120, 140, 160),
)
TOKEN_BOUNDS = (
    *(round(step * decade, 6) for decade in (0.001, 0.01, 0.1) for step in _STEPS),
    *(1, 2.5, 5, 10),
)
_STEP_BOUNDS = (
    *(0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 5, 7.5),
    *(10, 20, 40, 80, 160),
)
_REQUEST_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160),
    *(320, 640, 1280, 3600),
)
_WAIT_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RATIO_BOUNDS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 4)


class Metrics:
    """The metrics of one gate, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = self._fast_counter(
            "requests",
            "Requests that are over, by how they ended and why not well.",
            "model",
            "surface",
            "class",
            "outcome",
            "reason",
            "revision",
        )
        self.ended = self._fast_counter(
            "ended",
            "The same requests under few labels, from 0 on: what alerts go by.",
            "class",
            "outcome",
            "reason",
            "revision",
        )
        self.visits = self._fast_counter(
            "visits",
            "What pods made of requests, before another made it good: what canaries go by.",
            "outcome",
            "attempt",
            "revision",
        )
        self.admitted = self._fast_counter(
            "admitted", "Requests that got a seat on a pod.", "model", "revision"
        )
        self.tokens = self._fast_counter(
            "tokens", "Tokens as the engines counted them: prompt, cached, output.", "model", "kind"
        )
        self.ttft = self._histogram(
            "ttft_seconds",
            "From the whole request to its first byte.",
            ("model", "revision"),
            TTFT_BOUNDS,
        )
        self.inter_token = self._histogram(
            "inter_token_seconds", "Between two tokens.", ("model", "revision"), TOKEN_BOUNDS
        )
        self.request_seconds = self._histogram(
            "request_seconds",
            "From the head of a request to its end.",
            ("model", "outcome"),
            _REQUEST_BOUNDS,
        )
        self.queue_wait = self._histogram(
            "queue_wait_seconds", "Wait for a seat of what got one.", ("model",), _WAIT_BOUNDS
        )
        self.estimate = self._histogram(
            "prompt_estimate_ratio",
            "Estimated over counted prompt tokens: 1 is right, 2 is twice too many.",
            ("model",),
            _RATIO_BOUNDS,
        )
        self.prefill_step = self._histogram(
            "prefill_step_seconds", "First step of a pair, sent to returned.", (), _STEP_BOUNDS
        )
        self.transfer_wait = self._histogram(
            "transfer_wait_seconds",
            "Second step of a pair, sent to first byte: KV transfer and first decode.",
            (),
            _STEP_BOUNDS,
        )
        self.retries = self._counter(
            "retries", "Requests sent elsewhere, by what the first pod did.", "outcome"
        )
        self.scrapes = self._counter("scrapes", "Reads of pods' metrics by result.", "result")
        self.connections = self._gauge("client_connections", "Client connections that are open.")
        self.gates = self._gauge("gates", "Gates that share the pods, this one included.")
        self.unknown_pods = self._gauge(
            "unknown_pods", "Ready pods of slices that the configuration does not name."
        )
        self.loop_stalls = self._counter("loop_stalls", "Times that the event loop stood still.")
        self.loop_stalled = self._counter(
            "loop_stalled_seconds", "Time that the event loop stood still for over 250 ms at once."
        )
        self.draining = self._gauge("draining", "1 from the signal to stop until the end.")
        self.spans_dropped = self._counter(
            "spans_dropped", "Trace spans that the collector did not take."
        )
        self.faults = self._counter(
            "internal_errors", "Bugs: a part of the gate failed and was started again.", "part"
        )

    def keep_revisions(self, revisions: Collection[str]) -> None:
        """Drop the series of all other revisions."""
        counters = (self.requests, self.ended, self.visits, self.admitted)
        for family in (*counters, self.ttft, self.inter_token):
            family.keep("revision", revisions)

    def _counter(self, name: str, documentation: str, *labels: str) -> prometheus_client.Counter:
        return prometheus_client.Counter(
            f"tidegate_gate_{name}", documentation, labels, registry=self.registry
        )

    def _fast_counter(self, name: str, documentation: str, *labels: str) -> Counter:
        counter = Counter(f"tidegate_gate_{name}", documentation, labels)
        self.registry.register(counter)
        return counter

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(f"tidegate_gate_{name}", documentation, labels, registry=self.registry)

    def _histogram(
        self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> Histogram:
        histogram = Histogram(f"tidegate_gate_{name}", documentation, labels, bounds)
        self.registry.register(histogram)
        return histogram
