"""The world of a check: nodes as the options say, everything else from the files themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.cli.checking.check_sources import Source
from tidegate.core.admission import Facts, Selector, selectors

Texts = Mapping[tuple[str, str, str], str | None]
"""Values of ConfigMaps by namespace, name and key."""


@dataclass(frozen=True)
class Beside:
    """What the inputs hold of one namespace."""

    texts: Mapping[tuple[str, str], str]
    deployments: tuple[Mapping[str, Any], ...]
    selectors: tuple[Selector, ...]


def beside(sources: Sequence[Source]) -> dict[str, Beside]:
    """Return what the inputs hold, by namespace."""
    by_namespace: dict[str, list[Source]] = {}
    for source in sources:
        by_namespace.setdefault(source.namespace, []).append(source)
    return {
        namespace: Beside(
            dict(_texts(found)),
            tuple(source.document for source in found if source.is_deployment),
            tuple(filter(None, (selectors.of(source.document) for source in found))),
        )
        for namespace, found in by_namespace.items()
    }


def of(source: Source, near: Beside, known: Facts, asked: Texts) -> Facts:
    """Return what is known to the review of one resource.

    Args:
        source: The resource.
        near: What the inputs hold of its namespace.
        known: The nodes and the settings, alike for all resources.
        asked: What the cluster said of ConfigMaps that resources name.
    """
    texts = {key[1:]: text for key, text in asked.items() if key[0] == source.namespace}
    return replace(
        known,
        config_texts={**texts, **near.texts},
        others=tuple(d for d in near.deployments if d is not source.document),
        selectors=near.selectors,
    )


def _texts(sources: Sequence[Source]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the texts of ConfigMaps; what is none is left unknown."""
    for source in sources:
        data = source.document.get("data")
        if source.kind == "ConfigMap" and isinstance(data, Mapping):
            for key, text in data.items():
                if isinstance(key, str) and isinstance(text, str):
                    yield (source.name, key), text
