"""The world of a check: nodes as the options say, everything else from the files themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.cli.check_sources import Source
from tidegate.core.admission import Facts, Selector

_WITH_TEMPLATES = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_WITH_MATCH_LABELS = (*_WITH_TEMPLATES, "PodDisruptionBudget")
Texts = Mapping[tuple[str, str, str], str | None]
"""Values of ConfigMaps by namespace, name and key."""


def of(source: Source, beside: Sequence[Source], known: Facts, asked: Texts) -> Facts:
    """Return what is known to the review of one resource.

    Args:
        source: The resource.
        beside: Every document of the inputs.
        known: The nodes and the settings, alike for all resources.
        asked: What the cluster said of ConfigMaps that resources name.
    """
    near = [other for other in beside if other.namespace == source.namespace]
    texts = {key[1:]: text for key, text in asked.items() if key[0] == source.namespace}
    return replace(
        known,
        config_texts={**texts, **dict(_texts(near))},
        others=tuple(s.document for s in near if s.is_deployment and s.name != source.name),
        selectors=tuple(_selectors(near)),
    )


def _texts(sources: Sequence[Source]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the texts of ConfigMaps; what is none is left unknown."""
    for source in sources:
        data = source.document.get("data")
        if source.kind == "ConfigMap" and isinstance(data, Mapping):
            for key, text in data.items():
                if isinstance(key, str) and isinstance(text, str):
                    yield (source.name, key), text


def _selectors(sources: Sequence[Source]) -> Iterator[Selector]:
    for source in sources:
        labels = _selector(source)
        if labels:
            yield Selector(source.kind, source.name, labels)


def _selector(source: Source) -> Mapping[str, str] | None:
    """Return the labels by which an object finds pods; None where it finds them otherwise."""
    spec = source.document.get("spec")
    selector: Any = spec.get("selector") if isinstance(spec, Mapping) else None
    if source.kind in _WITH_MATCH_LABELS:
        if not isinstance(selector, Mapping) or selector.get("matchExpressions"):
            return None
        selector = selector.get("matchLabels")
    elif source.kind != "Service":
        return None
    return selector if isinstance(selector, Mapping) else None
