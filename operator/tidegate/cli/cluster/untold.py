"""Engine pods that no gate tells of: those that start or fail, and all where no gate answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.quantities import rounded_duration
from tidegate.cli.cluster.access import Document
from tidegate.cli.cluster.status_sum import GateAnswer
from tidegate.core import causes, names
from tidegate.core.causes import Cause
from tidegate.core.status.conditions import parse_time

_MOST_CAUSES = 5


@dataclass(frozen=True)
class UntoldPod:
    """A pod as the API server tells of it; `cause` is why it does not serve, where it shows."""

    name: str
    pool: str
    revision: str
    state: str
    cause: Cause | None = None

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        return {
            "name": self.name,
            "pool": self.pool,
            "revision": self.revision,
            "state": self.state,
            "reason": self.cause.reason if self.cause else None,
            "cause": self.cause.message if self.cause else None,
        }


def gates_of(pods: Iterable[Document]) -> list[str]:
    """Return the names of a deployment's pods that are gates."""
    return [_name(pod) for pod in pods if _labels(pod).get(names.COMPONENT) == names.GATE]


def pods(pods: Iterable[Document], answers: Iterable[GateAnswer], now: float) -> list[UntoldPod]:
    """Return the engines' pods that are in no gate's answer, by pool and name.

    Args:
        pods: All pods of a deployment.
        answers: What its gates told.
        now: Seconds since 1970.
    """
    told = {str(pod["name"]) for of in answers for pod in (of.told or {}).get("pods") or ()}
    found = [
        _read(pod, now)
        for pod in pods
        if names.LABEL_POOL in _labels(pod) and _name(pod) not in told
    ]
    return sorted(found, key=lambda pod: (pod.pool, pod.name))


def why(document: Mapping[str, Any]) -> list[str]:
    """Say why a deployment is not Ready, and why pods do not serve: once for each cause.

    `document` is that of `status` or `top`. The operator, which reads logs, knows more than what a
    pod's own status tells: a pod that its message names is not explained again.
    """
    message = str(document["message"]) if document["ready"] != "True" else ""
    by_reason = {
        str(pod["reason"]): str(pod["cause"])
        for pod in reversed(document["podsNoGateTellsOf"])
        if pod["cause"] and pod["name"] not in message
    }
    told = list(by_reason.values())[:_MOST_CAUSES]
    return [f"not ready: {message}", *told] if message else told


def _read(pod: Document, now: float) -> UntoldPod:
    labels = _labels(pod)
    cause = causes.of_pod(pod)
    return UntoldPod(
        _name(pod),
        str(labels[names.LABEL_POOL]),
        str(labels.get(names.LABEL_REVISION, "")),
        _state(pod, cause, now),
        cause,
    )


def _state(pod: Document, cause: Cause | None, now: float) -> str:
    if causes.is_leaving(pod):
        return "terminating"
    if cause is None and causes.is_ready(pod):
        return "ready, no gate tells of it"
    created = parse_time(pod["metadata"].get("creationTimestamp"))
    age = f", {rounded_duration(max(0.0, now - created))} old" if created is not None else ""
    return f"not ready{age}{f': {cause.reason}' if cause else ''}"


def _labels(pod: Document) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _name(pod: Document) -> str:
    return str(pod["metadata"]["name"])
