"""Reads the corpus: each case is a base document, changes of it, a world, and what must be said.

A file has `base` (a document), `nodes` and `cases`. A case has
- `set`: values by dotted path, put into the base;
- `nodes`: names of cards (`H100`, `H100=4` for 4 GPUs a node) or what a node is like;
- `beside`: other objects of the namespace; `rules`: the operator's settings for admission;
- `verdict`: allow, warn, refuse, or hold (let in with a warning, and held by the operator);
- `reason`, and `field` where it matters; `source`: the public report that it comes from;
- `operator_reason`: where the operator, which knows more, has another one;
- `operator`: why the operator says nothing of it.
"""

import copy
import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tidegate.core import nodes
from tidegate.core.admission import Enforcement, Rules

FOLDER = Path(__file__).parent
_CARDS = {
    "A10": ("NVIDIA-A10", "23028"),
    "A100": ("NVIDIA-A100-SXM4-80GB", "81920"),
    "H100": ("NVIDIA-H100-80GB-HBM3", "81559"),
    "L4": ("NVIDIA-L4", "23034"),
    "L40S": ("NVIDIA-L40S", "46068"),
    "RTX3090": ("NVIDIA-GeForce-RTX-3090", "24576"),
    "T4": ("Tesla-T4", "15360"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One resource in one world."""

    file: str
    name: str
    document: dict[str, Any]
    node_documents: tuple[dict[str, Any], ...]
    verdict: str
    reason: str | None = None
    field: str | None = None
    beside: tuple[dict[str, Any], ...] = ()
    rules: Rules = dataclasses.field(default_factory=Rules)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    operator_reason: str | None = None
    operator: str | None = None
    source: str | None = None

    @property
    def id(self) -> str:
        return f"{self.file}: {self.name}"

    @cached_property
    def nodes(self) -> tuple[nodes.Node, ...]:
        return tuple(offer for document in self.node_documents for offer in nodes.offers(document))


class _Loader(yaml.SafeLoader):
    """Knows tags for what is long: !repeat [text, times], !keys, !list, !deep and !digest."""


def _deep(levels: int) -> dict[str, Any]:
    return {"a": _deep(levels - 1)} if levels else {}


_LONG = {
    "!keys": lambda text: {f"key{number}": number for number in range(int(text))},
    "!list": lambda text: [f"entry{number}" for number in range(int(text))],
    "!deep": lambda text: _deep(int(text)),
    "!digest": lambda text: f"{text}@sha256:{'0' * 64}",
}


def _repeat(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> str:
    text, times = loader.construct_sequence(node)
    return text * times


_Loader.add_constructor("!repeat", _repeat)
for _tag, _make in _LONG.items():
    _Loader.add_constructor(_tag, lambda loader, node, make=_make: make(node.value))


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the base with the value at each dotted path replaced."""
    document = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, last = path.split(".")
        part = document
        for step in parents:
            part = part.setdefault(step, {})
        part[last] = value
    return document


def node_document(number: int, given: Any) -> dict[str, Any]:
    """Return the Node of a card's name, or of what it is like."""
    wanted = given if isinstance(given, dict) else {"gpu": given}
    card, _, count = str(wanted.get("gpu", "")).partition("=")
    product, mib = _CARDS.get(card, (wanted.get("product"), wanted.get("mib")))
    gpus = str(wanted.get("gpus") or count or 8)
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": mib}
    known = {key: value for key, value in labels.items() if value}
    counted = {"nvidia.com/gpu.count": gpus} if known else {}
    allocatable = {"nvidia.com/gpu": gpus}
    if "memory" in wanted:
        allocatable["memory"] = wanted["memory"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number}",
            "labels": {**known, **counted, **wanted.get("labels", {})},
        },
        "spec": {"taints": wanted.get("taints", [])},
        "status": {"allocatable": allocatable},
    }


def _case(file: str, table: dict[str, Any], row: dict[str, Any]) -> Case:
    settings = row.get("rules", {})
    told = ("name", "verdict", "reason", "field", "operator_reason", "operator", "source")
    return Case(
        file=file,
        document=changed(table["base"], row["set"]),
        node_documents=tuple(
            node_document(number, given)
            for number, given in enumerate(row.get("nodes", table["nodes"]))
        ),
        beside=tuple(row.get("beside", ())),
        rules=Rules(
            Enforcement(settings.get("enforcement", "Enforce")),
            tuple(settings.get("registries", ())),
            settings.get("digestsOnly", False),
        ),
        settings=settings,
        **{key: row[key] for key in told if key in row},
    )


def read() -> list[Case]:
    """Return every case of the corpus."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        table = yaml.load(path.read_text("utf-8"), Loader=_Loader)
        found += [_case(path.stem, table, row) for row in table["cases"]]
    return found


CASES = read()
