"""Reads cases.yaml: documents that must be refused or accepted, as changes of a base."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Case:
    """One document and what must be said of it."""

    name: str
    document: dict[str, Any]
    field: str = ""
    says: str = ""
    server_says: str = ""
    python_only: bool = False
    why: str = ""


class _Loader(yaml.SafeLoader):
    """Knows `!repeat [text, times]` and `!keys count`, for what is long."""


def _repeat(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> str:
    text, times = loader.construct_sequence(node)
    return text * times


def _keys(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> dict[str, int]:
    return {f"key{number}": number for number in range(int(node.value))}


_Loader.add_constructor("!repeat", _repeat)
_Loader.add_constructor("!keys", _keys)
_TABLE = yaml.load((Path(__file__).parent / "cases.yaml").read_text("utf-8"), Loader=_Loader)


def base() -> dict[str, Any]:
    """Return the smallest good document."""
    return copy.deepcopy(_TABLE["base"])


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the base with the value at each dotted path replaced."""
    document = base()
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = document
        for step in parents:
            node = node.setdefault(step, {})
        node[last] = value
    return document


def _cases(kind: str) -> list[Case]:
    return [
        Case(
            document=changed(row["set"]),
            **{key: value for key, value in row.items() if key != "set"},
        )
        for row in _TABLE[kind]
    ]


REFUSED = _cases("refused")
ACCEPTED = _cases("accepted")
