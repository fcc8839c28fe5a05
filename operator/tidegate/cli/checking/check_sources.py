"""What `tidegate check` reads: files, folders, standard input, the output of kustomize."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.api.llmdeployment import GROUP, KIND
from tidegate.cli.inputs import files, yaml_files
from tidegate.errors import Invalid, Problem

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Source:
    """One document and where it stands; `item` is its index where it is in a List.

    `text` is the whole file: what was read from standard input cannot be read again.
    """

    path: str
    number: int
    item: int | None
    document: Mapping[str, Any]
    text: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """Where it stands, for errors."""
        return self.path if self.item is None else f"{self.path}: items[{self.item}]"

    @property
    def kind(self) -> str:
        """The document's kind, empty without one."""
        return str(self.document.get("kind", ""))

    @property
    def namespace(self) -> str:
        """The namespace that the document names, `default` without one."""
        return str(self._metadata.get("namespace") or "default")

    @property
    def name(self) -> str:
        """The document's name, or the beginning of one."""
        return str(self._metadata.get("name") or self._metadata.get("generateName") or "")

    @property
    def is_deployment(self) -> bool:
        """Say whether it is a resource of ours; a kind of this name in another group is not."""
        group = str(self.document.get("apiVersion", GROUP)).partition("/")[0]
        return self.kind == KIND and group == GROUP

    @property
    def _metadata(self) -> Mapping[str, Any]:
        metadata = self.document.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}


@dataclass(frozen=True)
class Sources:
    """All documents of all inputs, and what is wrong with those that could not be read."""

    documents: tuple[Source, ...]
    unreadable: tuple[Problem, ...]

    @property
    def deployments(self) -> list[Source]:
        """The resources to check, in the order in which they were read."""
        return [source for source in self.documents if source.is_deployment]


def read(inputs: Sequence[str]) -> Sources:
    """Read every document of files, folders (with those below them) and `-`, standard input."""
    found: list[Source] = []
    unreadable: list[Problem] = []
    for path in (path for given in inputs for path in _files(given)):
        try:
            found += _documents(path)
        except Invalid as error:
            unreadable += error.problems
    return Sources(tuple(found), tuple(unreadable))


def require_deployments(inputs: Sequence[str], found: Sources) -> None:
    """Refuse inputs that have nothing to check.

    Raises:
        Invalid: There is no resource in any of them, though all could be read.
    """
    if not found.deployments and not found.unreadable:
        raise Invalid([Problem(", ".join(inputs), f"holds no {KIND}")])


def _files(given: str) -> Iterator[str]:
    """Yield a file as it is, and of a folder the manifests in it; hidden ones are left out."""
    if given == "-" or not Path(given).is_dir():
        yield given
        return
    for folder, folders, names in os.walk(given):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_ENDINGS) and not name.startswith("."):
                yield os.path.join(folder, name)


def _documents(path: str) -> Iterator[Source]:
    text = files.read(path, path)
    whole = yaml_files.documents(text, path)
    for number, document in enumerate(whole):
        if document is None:
            continue
        if not isinstance(document, dict):
            place = path if len(whole) == 1 else f"{path}: document {number + 1}"
            raise Invalid([Problem(place, "holds something that is not an object")])
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            yield from _items(path, number, document["items"], text)
        else:
            yield Source(path, number, None, document, text)


def _items(path: str, number: int, items: object, text: str) -> Iterator[Source]:
    if not isinstance(items, list | None):
        raise Invalid([Problem(f"{path}: items", "must be a list")])
    for index, item in enumerate(items or ()):
        if not isinstance(item, dict):
            told = "holds something that is not an object"
            raise Invalid([Problem(f"{path}: items[{index}]", told)])
        yield Source(path, number, index, item, text)
