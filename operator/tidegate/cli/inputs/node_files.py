"""Nodes from a file, looked at before they are read: a file may hold anything."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core import nodes
from tidegate.core.nodes import MEMORY_LABEL, Node
from tidegate.errors import Invalid, Problem


def read(documents: Sequence[tuple[str, dict[str, Any]]]) -> list[Node]:
    """Return the nodes of documents, each with its place in the file.

    Raises:
        Invalid: A node is not as the API server writes it, or two have one name; all faults.
    """
    found: list[Node] = []
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for place, document in documents:
        wrong = [Problem(f"{place}: {field}", told) for field, told in _faults(document)]
        if wrong:
            problems += wrong
            continue
        name = document["metadata"]["name"]
        if name in places:
            told = f"{name} is the name of {places[name]}, too; give each Node once"
            problems.append(Problem(f"{place}: metadata.name", told))
        places.setdefault(name, place)
        found += nodes.offers(document)
    if problems:
        raise Invalid(problems)
    return found


def _faults(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields that are wrong, with what they must be."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return [("metadata", "must be an object with a name")]
    faults = []
    if not (isinstance(metadata.get("name"), str) and metadata["name"]):
        faults.append(("metadata.name", "must be the name of the Node"))
    faults += _label_faults(metadata.get("labels"))
    for part, field, kind in (("spec", "taints", list), ("status", "allocatable", Mapping)):
        whole = document.get(part, {})
        if not isinstance(whole, Mapping):
            faults.append((part, "must be an object"))
        elif not isinstance(whole.get(field), kind | None):
            wanted = "a list" if kind is list else "an object"
            faults.append((f"{part}.{field}", f"must be {wanted}"))
        elif kind is list and not all(isinstance(one, Mapping) for one in whole.get(field) or ()):
            faults.append((f"{part}.{field}", "must hold objects with key, value and effect"))
    return faults


def _label_faults(labels: Any) -> list[tuple[str, str]]:
    if labels is None:
        return []
    if not isinstance(labels, Mapping):
        return [("metadata.labels", "must be an object")]
    faults = [
        (f"metadata.labels[{str(key)[:100]}]", "must be a string")
        for key, value in labels.items()
        if not (isinstance(key, str) and isinstance(value, str))
    ]
    memory = labels.get(MEMORY_LABEL)
    if isinstance(memory, str) and nodes.memory_mib(labels) is None:
        told = f"must be a number of MiB, not {memory[:40]}"
        faults.append((f"metadata.labels[{MEMORY_LABEL}]", told))
    return faults
