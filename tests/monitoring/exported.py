"""Every series that there is to query: of operator, gate, engines, and our own recordings."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from tests.unit.gate.shell.test_metrics_page import Silent

from tidegate.core.monitoring import rules
from tidegate.facts import engines
from tidegate.gate.shell.gate import Gate
from tidegate.gate.shell.metrics import Metrics as GateMetrics
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.cluster_metrics import ClusterMetrics
from tidegate.shell.overload_metrics import OverloadMetrics
from tidegate.shell.restart_metrics import RestartMetrics
from tidegate.shell.telemetry import Metrics

OF_PROMETHEUS = {"up", "ALERTS"}


def of_operator() -> set[str]:
    """Return the series of the operator's process."""
    return _series(_registry_of_operator().collect())


def labels_of_operator() -> dict[str, tuple[str, ...]]:
    """Return the labels of each metric of the operator's process, also where it has no series."""
    named: dict[str, tuple[str, ...]] = {}
    for collector in _registry_of_operator()._collector_to_names:
        for family in collector.collect():
            knows = collector if hasattr(collector, "_labelnames") else family
            name = f"{family.name}_total" if family.type == "counter" else family.name
            named[name] = tuple(knows._labelnames)
    return named


def _registry_of_operator() -> CollectorRegistry:
    registry: CollectorRegistry = Metrics().registry
    AdmissionMetrics(registry)
    OverloadMetrics(registry)
    RestartMetrics(registry)
    registry.register(ClusterMetrics(list, dict, lambda: True))
    return registry


def of_gates() -> set[str]:
    """Return the series of a gate's process."""
    gate = Gate("chat", "qwen", GateMetrics(), lambda configuration, changed: Silent())
    return _series(gate.metrics.registry.collect())


def of_engines() -> set[str]:
    """Return the series of every engine that is known, under old names as well."""
    found: set[str] = set()
    for version in engines.versions():
        for name, metric in engines.engine(version).metrics.items():
            found |= _names(name, metric.kind)
            for old in engines.metric_generations(name):
                found |= _names(old, metric.kind)
    return found


def recorded() -> set[str]:
    """Return what our rules record."""
    return {recording.name for recording in rules.recordings()}


def everything() -> set[str]:
    """Return all of it."""
    return of_operator() | of_gates() | of_engines() | recorded() | OF_PROMETHEUS


def _series(families: Iterable[Metric]) -> set[str]:
    return {name for family in families for name in _names(family.name, family.type)}


def _names(name: str, kind: str) -> set[str]:
    if kind == "histogram":
        return {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    if kind == "counter":
        return {f"{name.removesuffix('_total')}_total"}
    return {name}
