"""The nodes of a check, with the classes that the operator's settings declare."""

from collections.abc import Sequence
from typing import Any

from tidegate.cli.checking import check_sources
from tidegate.cli.inputs import node_files
from tidegate.core import nodes
from tidegate.core.nodes import Node, NodeClassSetting
from tidegate.errors import Invalid, Problem

Placed = tuple[str, dict[str, Any]]
"""A document, and where it stands, for errors."""


def of_file(path: str, classes: Sequence[NodeClassSetting]) -> list[Node]:
    """Return the nodes of a file or a folder (`kubectl get nodes -o yaml`).

    Raises:
        Invalid: It cannot be read, or holds no Node.
    """
    found = check_sources.read([path])
    if found.unreadable:
        raise Invalid(list(found.unreadable))
    placed = [
        (source.place, dict(source.document)) for source in found.documents if source.kind == "Node"
    ]
    if not placed:
        raise Invalid([Problem(path, "holds no Node; write it with kubectl get nodes -o yaml")])
    return read(placed, classes)


def read(placed: Sequence[Placed], classes: Sequence[NodeClassSetting]) -> list[Node]:
    """Return what the nodes offer.

    Raises:
        Invalid: A document is no Node as the API server writes it, or two have one name.
    """
    node_files.read(placed)
    return [offer for _, document in placed for offer in nodes.offers(document, classes)]
