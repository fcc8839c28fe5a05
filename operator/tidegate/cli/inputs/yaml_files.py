"""YAML as the commands read it: a key that stands twice is refused, as Kubernetes refuses it."""

from collections.abc import Iterator
from typing import Any

import yaml

from tidegate.errors import Invalid, Problem

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # pragma: no cover - PyYAML without its C part
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # the same face

_MERGE = "tag:yaml.org,2002:merge"


def documents(text: str, where: str) -> list[Any]:
    """Return every document of a text.

    Raises:
        Invalid: It is no YAML, or a mapping has a key twice; with the line.
    """
    try:
        return list(_documents(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a number of thousands of digits, or a date that does not exist.
        told = " ".join(str(error).split())[:500]
        raise Invalid([Problem(where, f"cannot be read: {told}")]) from error


def _documents(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _require_unique_keys(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _require_unique_keys(root: yaml.Node | None) -> None:
    """Look at the nodes before they are constructed: merging (`<<`) repeats keys on purpose."""
    waiting, looked_at = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in looked_at:  # an alias
            continue
        looked_at.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            _require_unique(node)
            waiting += [value for _, value in node.value]


def _require_unique(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: the key {key.value[:100]} stands twice")
            seen.add((key.tag, key.value))
