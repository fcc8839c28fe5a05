"""What the caches hold of deployments, shown as metrics at each read.

Nothing is kept between two reads, so a deployment that is gone leaves no series behind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.api.quantities import parse_duration
from tidegate.flow.ports import Document
from tidegate.shell import rollout_metrics

_DEPLOYMENT = ("namespace", "llmdeployment")
_OBJECTIVES = {"timeToFirstToken": "ttft", "timePerOutputToken": "tpot"}


class ClusterMetrics(Collector):
    """Conditions, pods, objectives and levers of each deployment; silence of each watch.

    Args:
        deployments: Returns every LLMDeployment.
        silences: Returns the seconds since each watch was heard last, by its resource.
        leads: Says whether this process leads: one replica alone tells of deployments.
    """

    def __init__(
        self,
        deployments: Callable[[], Iterable[Document]],
        silences: Callable[[], Mapping[str, float]],
        leads: Callable[[], bool],
    ) -> None:
        self._deployments = deployments
        self._silences = silences
        self._leads = leads

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Say nothing, so that registering this asks for nothing."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families as they are now."""
        silence = GaugeMetricFamily(
            "tidegate_watch_silence_seconds",
            "Since the API server was last heard on a watch: a bookmark comes every minute.",
            labels=("resource",),
        )
        for resource, seconds in self._silences().items():
            silence.add_metric((resource,), seconds)
        yield silence
        there = list(self._deployments()) if self._leads() else []
        yield _conditions(there)
        yield from _pods(there)
        yield _objectives(there)
        yield _overrides(there)
        yield from rollout_metrics.families(there)


def _conditions(deployments: Iterable[Document]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tidegate_deployment_condition",
        "1 for each condition of a deployment, with its status and reason as labels.",
        labels=(*_DEPLOYMENT, "type", "status", "reason"),
    )
    for document in deployments:
        for told in (document.get("status") or {}).get("conditions") or ():
            labels = (told["type"], told["status"], told.get("reason") or "")
            family.add_metric((*_place(document), *labels), 1.0)
    return family


def _pods(deployments: Iterable[Document]) -> Iterator[GaugeMetricFamily]:
    labels = (*_DEPLOYMENT, "pool")
    desired = GaugeMetricFamily("tidegate_pool_desired_pods", "Pods asked for.", labels=labels)
    ready = GaugeMetricFamily("tidegate_pool_ready_pods", "Pods that are ready.", labels=labels)
    for document in deployments:
        for pool in (document.get("status") or {}).get("pools") or ():
            desired.add_metric((*_place(document), pool["name"]), pool["desired"])
            ready.add_metric((*_place(document), pool["name"]), pool["ready"])
    yield desired
    yield ready


def _objectives(deployments: Iterable[Document]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tidegate_slo_seconds",
        "Objectives of spec.slo: 95 % of the requests are to be this fast.",
        labels=(*_DEPLOYMENT, "objective"),
    )
    for document in deployments:
        spec = document.get("spec") or {}
        for field, objective in _OBJECTIVES.items():
            seconds = _seconds((spec.get("slo") or {}).get(field))
            if seconds is not None:
                family.add_metric((*_place(document), objective), seconds)
    return family


def _overrides(deployments: Iterable[Document]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tidegate_override_until_timestamp_seconds",
        "When a person's lever lapses, in Unix time; absent where none is set.",
        labels=(*_DEPLOYMENT, "action"),
    )
    for document in deployments:
        spec = document.get("spec") or {}
        lever = (spec.get("overload") or {}).get("override")
        until = _instant(lever.get("until")) if lever else None
        if lever and until is not None:
            family.add_metric((*_place(document), lever.get("action") or ""), until)
    return family


def _instant(written: object) -> float | None:
    """Read a moment as Unix seconds."""
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except ValueError:
        return None


def _seconds(written: object) -> float | None:
    """Read a duration; what is not one was told in the deployment's status already."""
    if written is None:
        return None
    try:
        return parse_duration(written)
    except ValueError:
        return None


def _place(document: Document) -> tuple[str, str]:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]
