"""Rollouts as metrics, from the status of each deployment."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily

from tidegate.core.canary import stored, tell
from tidegate.flow.ports import Document

_DEPLOYMENT = ("namespace", "llmdeployment")


def families(deployments: Iterable[Document]) -> Iterator[GaugeMetricFamily]:
    """Yield the families of the deployments that have a rollout."""
    step = GaugeMetricFamily(
        "tidegate_rollout_step",
        "The step of a canary, from 1; absent without one.",
        labels=(*_DEPLOYMENT, "revision"),
    )
    looks = GaugeMetricFamily(
        "tidegate_rollout_looks",
        "Looks at a canary at its step, by what they said.",
        labels=(*_DEPLOYMENT, "revision", "verdict"),
    )
    weight = GaugeMetricFamily(
        "tidegate_rollout_weight_ratio",
        "Share of the requests that a canary has at its step; absent without one.",
        labels=(*_DEPLOYMENT, "revision"),
    )
    failed = GaugeMetricFamily(
        "tidegate_rollout_failed_revisions",
        "Revisions that were taken back and are remembered.",
        labels=_DEPLOYMENT,
    )
    for document in deployments:
        told = (document.get("status") or {}).get("rollout")
        if not told:
            continue
        place = document["metadata"].get("namespace", ""), document["metadata"]["name"]
        failed.add_metric(place, len(told.get("failed") or ()))
        if told.get("phase") == "Canary":
            own = (*place, told.get("canary") or "")
            step.add_metric(own, told.get("step", 0) + 1)
            share = _weight(document)
            if share is not None:
                weight.add_metric(own, share)
            for verdict, count in (told.get("verdicts") or {}).items():
                looks.add_metric((*own, verdict), count)
    yield from (step, weight, looks, failed)


def _weight(document: Document) -> float | None:
    """Return the canary's share of the requests; None where this version cannot tell."""
    state, wishes = stored.state(document), stored.wishes(document)
    return None if state is None or wishes is None else tell.weight_percent(state, wishes) / 100
