"""What the caches hold of each object: our own whole, of others what is read and no more."""

from tidegate.core.admission import selectors
from tidegate.core.nodes import GpuPod, gpus_of_pod
from tidegate.flow import gather
from tidegate.flow.ports import Document
from tidegate.shell.cache import deployment_of, without_managed_fields

_ENDED = ("Succeeded", "Failed")


def node(document: Document) -> Document:
    """Keep of a Node what planning reads."""
    metadata, status = document["metadata"], document.get("status", {})
    return {
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "labels": metadata.get("labels") or {},
            "resourceVersion": metadata["resourceVersion"],
        },
        "spec": {
            key: document["spec"][key]
            for key in ("taints", "unschedulable")
            if key in document.get("spec", {})
        },
        "status": {"allocatable": status.get("allocatable") or {}},
    }


def pod(document: Document) -> Document | None:
    """Keep our own pods whole, of others only what holds GPUs."""
    if deployment_of(document) is not None:
        return without_managed_fields(document)
    gpus = gpus_of_pod(document["spec"])
    if not gpus or document.get("status", {}).get("phase") in _ENDED:
        return None
    metadata = document["metadata"]
    return {
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
        "spec": {"nodeName": document["spec"].get("nodeName"), "gpus": gpus},
    }


def child(document: Document) -> Document:
    """Keep our own objects whole, but of the history of a rollout only that it is there."""
    kept = without_managed_fields(document)
    if gather.is_history(document):
        kept = {key: value for key, value in kept.items() if key != "data"}
    return kept


def child_or_selector(document: Document) -> Document | None:
    """Keep our own objects whole, of others only what they select pods by."""
    if deployment_of(document) is not None:
        return without_managed_fields(document)
    if selectors.of(document) is None:
        return None
    metadata = document["metadata"]
    return {
        "kind": document["kind"],
        "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
        "spec": {"selector": document["spec"]["selector"]},
    }


def gpu_pods(document: Document) -> tuple[GpuPod, ...]:
    """Return what a pod holds, by resource."""
    metadata, spec = document["metadata"], document["spec"]
    if document.get("status", {}).get("phase") in _ENDED:
        return ()
    ref = deployment_of(document)
    return tuple(
        GpuPod(
            namespace=metadata["namespace"],
            name=metadata["name"],
            node=spec.get("nodeName"),
            gpus=count,
            deployment=ref.name if ref else None,
            resource=resource,
        )
        for resource, count in (spec.get("gpus") or gpus_of_pod(spec)).items()
    )
