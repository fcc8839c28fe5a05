"""From a Pod or a Deployment document to a cause."""

from collections.abc import Mapping
from typing import Any, Literal

from tidegate.api.reasons import Reason
from tidegate.core.causes import containers, endings, unschedulable
from tidegate.core.causes.cause import Cause

LogWanted = Literal["previous", "current"]
MESSAGE_LIMIT = 2000
_LINE_LIMIT, _LINES_LIMIT = 1000, 1000

_PULLS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONFIGS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def needs_log(pod: Mapping[str, Any]) -> LogWanted | None:
    """Say which log tells why the pod does not serve; None where there is nothing to tell."""
    engine = containers.read(pod)
    if engine is None or engine.is_ready or is_leaving(pod):
        return None
    if engine.ended is not None:
        return "current"
    return "previous" if engine.ended_before is not None else None


def log_key(pod: Mapping[str, Any]) -> str:
    """Name the end that the log is of, so that it is fetched once."""
    engine = containers.read(pod)
    end = engine.last_end if engine else None
    restarts = engine.restarts if engine else 0
    return f"{pod['metadata']['uid']}/{(end and end.container_id) or restarts}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod serves, as its Ready condition tells it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_leaving(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def of_pod(pod: Mapping[str, Any], log: str = "") -> Cause | None:
    """Return why a pod does not serve, None where nothing is wrong (yet)."""
    found = None if is_leaving(pod) else _explain(pod, _bounded(log))
    if found is None:
        return None
    name = pod["metadata"]["name"]
    return Cause(found[0], f"pod {name}: {found[1]}"[:MESSAGE_LIMIT], name)


def of_deployment(deployment: Mapping[str, Any]) -> Cause | None:
    """Return why a Deployment cannot even make pods: a quota or a policy refused them."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            name = deployment["metadata"]["name"]
            message = f"pods of {name} cannot be made: {condition.get('message', '')}"
            return Cause(Reason.APPLY_REFUSED, message[:MESSAGE_LIMIT], name)
    return None


def _explain(pod: Mapping[str, Any], log: str) -> tuple[Reason, str] | None:
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and status.get("reason"):
        return _taken_away(pod)
    engine = containers.read(pod)
    if engine is None:
        return _unplaced(status)
    if engine.is_ready:
        return None if is_ready(pod) else _node_is_away(pod)
    waits = engine.waiting_message or engine.waiting_reason
    if engine.waiting_reason in _PULLS:
        image = containers.spec(pod).get("image", "")
        return (
            Reason.IMAGE_PULL_FAILED,
            f"the image {image} cannot be pulled: {waits}; "
            "correct spec.engine.image or spec.engine.imagePullSecrets",
        )
    if engine.waiting_reason in _CONFIGS:
        return (
            Reason.CONTAINER_CONFIG_INVALID,
            f"the container cannot be made: {waits}; create what is missing",
        )
    end = engine.last_end
    return endings.explain(pod, engine, end, log) if end else None


def _bounded(log: str) -> str:
    """Cut a log to what an engine's own message can be: what a container prints is anybody's."""
    return "\n".join(line[:_LINE_LIMIT] for line in log.splitlines()[-_LINES_LIMIT:])


def _taken_away(pod: Mapping[str, Any]) -> tuple[Reason, str]:
    """A pod that was evicted, or refused by its node: another one takes its place."""
    status, node = pod["status"], (pod.get("spec") or {}).get("nodeName", "")
    detail = f": {status['message']}" if status.get("message") else ""
    return (
        Reason.EVICTED,
        f"{status['reason']} from node {node}{detail}; another pod takes its place",
    )


def _node_is_away(pod: Mapping[str, Any]) -> tuple[Reason, str]:
    """The container was ready when last heard of, and the pod is not: its node went silent."""
    node = (pod.get("spec") or {}).get("nodeName", "")
    return (
        Reason.NODE_LOST,
        f"its node {node} does not answer; another pod takes its place when the node is given up",
    )


def _unplaced(status: Mapping[str, Any]) -> tuple[Reason, str] | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            if condition.get("status") == "True":
                return None
            return (
                Reason.UNSCHEDULABLE,
                f"no node can take it: {unschedulable.explain(condition.get('message', ''))}",
            )
    return None


def of_restart(cause: Cause | None, engine: containers.Engine) -> Reason:
    """Return the cause of a restart; of an engine that serves again only its end is known."""
    if cause is not None:
        return cause.reason
    end = engine.last_end
    killed = end is not None and end.reason == "OOMKilled"
    return Reason.OUT_OF_MEMORY_KILLED if killed else Reason.ENGINE_CRASHED
