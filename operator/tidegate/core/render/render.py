"""Every object that a deployment needs, from its spec, its plan and the replicas of each slice."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.api.llmdeployment import GROUP, KIND, VERSION, LLMDeployment, LLMDeploymentSpec
from tidegate.core import gate_config, names, serves
from tidegate.core.gate_config import Around
from tidegate.core.measure import measurement
from tidegate.core.plan import Plan, SlicePlan
from tidegate.core.render import gate, network, pod, templates
from tidegate.core.render.network import Readers
from tidegate.facts import engines

Document = dict[str, Any]
Scale = Mapping[tuple[str, str], int]
"""Replicas by (pool, name of the node class), for slices of the plan's revision."""

_ORDER = (
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "ConfigMap",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
)
"""What pods need comes before what makes pods."""


@dataclass(frozen=True)
class Owner:
    """The deployment that the objects belong to: they are named after it and go with it.

    Without a `uid` it is not in the cluster yet, and its objects name no owner.
    """

    namespace: str
    name: str
    uid: str | None


def render(
    owner: Owner,
    spec: LLMDeploymentSpec,
    plan: Plan,
    scale: Scale | None = None,
    readers: Readers | None = None,
    around: Around | None = None,
    gate_image: gate.Image | None = None,
    slices: Sequence[Document] | None = None,
) -> list[Document]:
    """Return the objects of a deployment, in the order in which they are to be applied.

    Slices of older revisions are not among them: those are scaled and deleted, not made.

    Args:
        owner: The deployment, as the cluster has it.
        spec: What the user asks for.
        plan: The plan made from it.
        scale: Replicas of slices that are not to have what the plan gives them.
        readers: Who may read metrics; a Prometheus in any namespace and the operator by default.
        around: What gates are to know beside the plan; nothing else is there by default.
        gate_image: What the gates run.
        slices: The Deployments of the plan's slices where they are not to be rendered anew.

    Raises:
        Refused: Something that the user passes on to the pods may not reach them.
    """
    readers = readers or Readers()
    documents = [
        document
        for pool in spec.pools.by_name()
        for document in _pool_objects(owner, pool, readers)
    ]
    told = gate_config.make(owner.namespace, owner.name, spec, plan, around or Around())
    documents += gate.objects(spec, told, readers, gate_image or gate.Image())
    documents += deployments(owner, spec, plan, scale or {}) if slices is None else slices
    return sorted(
        (owned(owner, document) for document in documents),
        key=lambda document: (_ORDER.index(document["kind"]), document["metadata"]["name"]),
    )


def preview(resource: LLMDeployment, plan: Plan) -> list[Document]:
    """Return the objects that a resource would lead to if it were applied."""
    metadata = resource.metadata
    owner = Owner(metadata.get("namespace", "default"), metadata["name"], None)
    return render(owner, resource.spec, plan)


def _pool_objects(owner: Owner, pool: str, readers: Readers) -> list[Document]:
    values = {
        "name": names.pool_name(owner.name, pool),
        "namespace": owner.namespace,
        "selector": names.pool_labels(owner.name, pool),
        "port": names.ENGINE_PORT,
        "ingress": network.ingress(owner.name, pool, readers),
    }
    kinds = ("service-account", "network-policy", "service", "pod-disruption-budget")
    labels = _common_labels() | names.pool_labels(owner.name, pool)
    return [_labelled(templates.fill(f"{kind}.yaml.j2", values), labels) for kind in kinds]


def deployments(owner: Owner, spec: LLMDeploymentSpec, plan: Plan, scale: Scale) -> list[Document]:
    """Return the Deployments of the plan's slices, without their owner.

    Raises:
        Refused: Something that the user passes on to the pods may not reach them.
    """
    return [deployment(owner, spec, plan, entry, scale) for entry in plan.slices]


def deployment(
    owner: Owner, spec: LLMDeploymentSpec, plan: Plan, entry: SlicePlan, scale: Scale
) -> Document:
    """Return the Deployment of one slice, without its owner.

    Raises:
        Refused: Something that the user passes on to the pods may not reach them.
    """
    class_name = entry.node_class.name
    selector = names.slice_labels(owner.name, entry.pool, plan.revision, class_name)
    labels = _common_labels() | selector
    values = {
        "name": names.slice_name(owner.name, entry.pool, plan.revision, class_name),
        "namespace": owner.namespace,
        "replicas": scale.get((entry.pool, class_name), entry.replicas),
        "progress_deadline_seconds": max(1, math.ceil(spec.rollout.progress_deadline)),
        "selector": selector,
        "service_account": names.pool_name(owner.name, entry.pool),
        "container": names.ENGINE_CONTAINER,
        **pod.values(spec, entry, labels, engines.engine(plan.engine_version)),
    }
    document = _labelled(templates.fill("deployment.yaml.j2", values), labels)
    told = gate_config.of_slice(owner.name, plan.revision, entry)
    kept = {
        names.ANNOTATION_GATE: gate_config.encode(told),
        names.ANNOTATION_SERVES: serves.encode(serves.planned(spec, [entry])),
    }
    if entry.basis is not None:
        kept[names.ANNOTATION_MEASURED] = measurement.encode(entry.basis)
    document["metadata"]["annotations"] = kept
    return document


def _common_labels() -> dict[str, str]:
    return {names.MANAGED_BY: names.FIELD_MANAGER, names.COMPONENT: "engine"}


def _labelled(document: Document, labels: Mapping[str, str]) -> Document:
    document["metadata"]["labels"] = dict(labels)
    return document


def owned(owner: Owner, document: Document) -> Document:
    """Return a document as the deployment's own: it goes with it."""
    if owner.uid is None:
        return document
    document["metadata"]["ownerReferences"] = [
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return document
