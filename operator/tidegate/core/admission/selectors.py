"""How objects of others find pods: by the labels that they select."""

from collections.abc import Mapping
from typing import Any

from tidegate.core.admission.facts import Selector

_WITH_TEMPLATES = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_WITH_MATCH_LABELS = (*_WITH_TEMPLATES, "PodDisruptionBudget")
"""A NetworkPolicy is none of these: to select pods of others is what it is for."""


def of(document: Mapping[str, Any]) -> Selector | None:
    """Return what an object selects; None where that is nothing, or more than a set of labels."""
    kind, metadata, spec = (document.get(key) for key in ("kind", "metadata", "spec"))
    if not isinstance(kind, str) or not isinstance(metadata, Mapping):
        return None
    selector: Any = spec.get("selector") if isinstance(spec, Mapping) else None
    if kind in _WITH_MATCH_LABELS:
        if not isinstance(selector, Mapping) or selector.get("matchExpressions"):
            return None
        selector = selector.get("matchLabels")
    elif kind != "Service":
        return None
    if not isinstance(selector, Mapping) or not selector:
        return None
    return Selector(kind, str(metadata.get("name") or ""), selector)
