"""A canary's baseline: fresh pods of stable, copied from what stable's slices are in the cluster.

The spec that stable was made from is not known any more; its Deployments are. A copy differs in
the revision alone, so gates, metrics and selectors tell its pods apart as they do others. Once it
is there it is like any slice of a former spec: scaled and deleted, never made anew.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.core import gate_config, kept_rendering, names
from tidegate.core.canary.state import State
from tidegate.core.rollout.slices import Slice

Document = dict[str, Any]


def missing(deployment: str, found: Sequence[Slice], state: State) -> list[Slice]:
    """Return the slices of a baseline that are not there yet: one for each that stable has."""
    if state.baseline is None:
        return []
    there = {of.name for of in found}
    return [
        Slice(
            name=name,
            pool=of.pool,
            revision=state.baseline,
            gpus=of.gpus,
            exists=False,
            nodes=of.nodes,
            node_class=of.node_class,
        )
        for of in found
        if of.exists and of.revision == state.stable
        if (name := _name(deployment, of.pool, state.baseline, of.node_class)) not in there
    ]


def to_make(
    deployment: str, live: Iterable[Document], baseline: str, replicas: Mapping[str, int]
) -> Iterator[Document]:
    """Yield the Deployments of a baseline that are to have pods and are not there.

    Args:
        deployment: The name of the resource.
        live: The Deployments of all its slices.
        baseline: The revision of the baseline.
        replicas: Pods that each slice is to have, by name.
    """
    there = {found["metadata"]["name"]: found for found in live}
    stable = names.original_revision(baseline)
    for found in there.values():
        labels = found["metadata"].get("labels") or {}
        if labels.get(names.LABEL_REVISION) != stable:
            continue
        pool, node_class = labels.get(names.LABEL_POOL, ""), labels.get(names.LABEL_NODE_CLASS, "")
        name = _name(deployment, pool, baseline, node_class)
        if name not in there and replicas.get(name):
            yield _copy(found, name, baseline, replicas[name])


def _name(deployment: str, pool: str, revision: str, node_class: str) -> str:
    return names.slice_name(deployment, pool, revision, node_class)


def _copy(found: Document, name: str, revision: str, replicas: int) -> Document:
    """Return a slice's Deployment as it was applied, with pods of another revision."""
    metadata, spec = found["metadata"], found["spec"]
    template = kept_rendering.template_of(found) or spec["template"]
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
            "annotations": _annotations(metadata.get("annotations") or {}, name, revision),
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {**spec, "replicas": replicas, "template": template},
    }
    relabelled: Document = _relabelled(made, metadata["labels"][names.LABEL_REVISION], revision)
    return kept_rendering.noted(relabelled)


def _annotations(of_stable: Mapping[str, str], name: str, revision: str) -> dict[str, str]:
    """Return what is told of the pods: the numbers of stable's, which are equal."""
    equal = (names.ANNOTATION_MEASURED, names.ANNOTATION_SERVES)
    kept = {key: of_stable.get(key) for key in equal}
    told = gate_config.decode(of_stable)
    if told is not None:
        renamed = told.model_copy(update={"name": name, "revision": revision})
        kept[names.ANNOTATION_GATE] = gate_config.encode(renamed)
    return {key: value for key, value in kept.items() if value is not None}


def _relabelled(value: Any, before: str, after: str) -> Any:
    """Return a document with another revision in its labels, and in all that selects by them."""
    if isinstance(value, list):
        return [_relabelled(entry, before, after) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: after
        if (key, entry) == (names.LABEL_REVISION, before)
        else _relabelled(entry, before, after)
        for key, entry in value.items()
    }
