"""The metrics of the slow loop: what it holds for each deployment, and how its questions go."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tidegate.core.overload.queries import Name
from tidegate.core.overload.signal import TRIGGERS, Sample
from tidegate.flow.overload_memory import Overseen
from tidegate.flow.ports import Ref

_DEPLOYMENT = ("namespace", "llmdeployment")
_STATES = ("Normal", "Overloaded", "Override")
_QUERY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class OverloadMetrics:
    """Shows deployments as the last tick left them, and forgets them; what is unknown is absent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shed = Gauge(
            "tidegate_overload_shed_percent",
            "Share of the requests that the operator has the gates turn away.",
            _DEPLOYMENT,
            registry=registry,
        )
        self._shift = Gauge(
            "tidegate_overload_shift_percent",
            "Share of the requests that the operator has another deployment serve.",
            (*_DEPLOYMENT, "to"),
            registry=registry,
        )
        self._state = Gauge(
            "tidegate_overload_state",
            "1 for the state that holds: Normal, Overloaded or Override.",
            (*_DEPLOYMENT, "state"),
            registry=registry,
        )
        self._override = Gauge(
            "tidegate_overload_override_active",
            "1 while a person's lever holds instead of the loop, else 0.",
            _DEPLOYMENT,
            registry=registry,
        )
        self._age = Gauge(
            "tidegate_overload_metric_age_seconds",
            "Age of the sample that the last tick went by; absent where none is known.",
            (*_DEPLOYMENT, "pool", "signal"),
            registry=registry,
        )
        self.ticks = Counter(
            "tidegate_overload_ticks",
            "Looks at all deployments: good, silent (no useful answer of Prometheus) or failed.",
            ["result"],
            registry=registry,
        )
        self.tick_seconds = Histogram(
            "tidegate_overload_tick_seconds",
            "Duration of a tick, questions included.",
            registry=registry,
            buckets=_QUERY_BUCKETS,
        )
        self._query_seconds = Histogram(
            "tidegate_overload_query_seconds",
            "Duration of a question to Prometheus.",
            ["query"],
            registry=registry,
            buckets=_QUERY_BUCKETS,
        )
        self._query_failures = Counter(
            "tidegate_overload_query_failures",
            "Questions to Prometheus without a useful answer.",
            ["query"],
            registry=registry,
        )
        self._shown: dict[Ref, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def asked(self, query: Name, seconds: float, is_useful: bool) -> None:
        """Count one question."""
        self._query_seconds.labels(query).observe(seconds)
        if not is_useful:
            self._query_failures.labels(query).inc()

    def tell(self, ref: Ref, seen: Overseen) -> None:
        """Show what the last tick came to for a deployment."""
        shown = self._values(ref, seen)
        for (gauge, labels), value in shown.items():
            gauge.labels(*labels).set(value)
        self._hide(self._shown.get(ref, set()) - set(shown))
        self._shown[ref] = set(shown)

    def keep_only(self, refs: set[Ref]) -> None:
        """Show these deployments and no others."""
        for ref in set(self._shown) - refs:
            self._hide(self._shown.pop(ref))

    def _values(self, ref: Ref, seen: Overseen) -> dict[tuple[Gauge, tuple[str, ...]], float]:
        of = (ref.namespace, ref.name)
        values: dict[tuple[Gauge, tuple[str, ...]], float] = {}
        for (pool, signal), reading in seen.signals.items():
            if signal in TRIGGERS[pool] and isinstance(reading, Sample):
                values[self._age, (*of, pool, str(signal))] = max(0.0, seen.at - reading.at)
        decision = seen.decision
        values[self._override, of] = decision is not None and decision.state == "Override"
        if decision is not None:
            values[self._shed, of] = decision.shed_percent
            values[self._shift, (*of, decision.shift_to)] = decision.shift_percent
            for state in _STATES:
                values[self._state, (*of, state)] = decision.state == state
        return values

    @staticmethod
    def _hide(gone: set[tuple[Gauge, tuple[str, ...]]]) -> None:
        for gauge, labels in gone:
            gauge.remove(*labels)
