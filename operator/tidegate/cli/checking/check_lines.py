"""The line of a field in the file where it stands, for annotations of a pull request."""

import functools

import yaml

from tidegate.cli.checking.check_sources import Source
from tidegate.core.admission import paths


def line_of(source: Source, field: str) -> int:
    """Return the line (from 1) of a field, or of the nearest one around it that is there."""
    documents = _nodes(source.text)
    if source.number >= len(documents):
        return 1
    node = documents[source.number]
    if source.item is not None:
        node = _step(_step(node, "items") or node, source.item) or node
    line = node.start_mark.line
    for step in paths.steps(field):
        found = _step(node, step)
        if found is None:
            break
        line, node = _line(node, step, found), found
    return int(line) + 1


@functools.lru_cache(maxsize=8)
def _nodes(text: str) -> tuple[yaml.Node, ...]:
    """Return the documents of a text with their places."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.compose_all(text, Loader=loader))


def _step(node: yaml.Node, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    return None


def _line(parent: yaml.Node, step: str | int, child: yaml.Node) -> int:
    """A field begins at its key, an entry of a list at itself."""
    if isinstance(parent, yaml.MappingNode):
        key = next(key for key, _ in parent.value if key.value == step)
        return int(key.start_mark.line)
    return int(child.start_mark.line)
