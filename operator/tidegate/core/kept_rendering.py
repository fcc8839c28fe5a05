"""A slice that is there keeps the pods' template that it was made with.

The revision is a hash of what the user asks for. While it stays the same, another rendering comes
from elsewhere: a newer Tidegate, its settings, or nodes that tell other facts. None of these is
worth minutes of a running engine, so it waits for the next revision, which takes it along.

What was applied is kept in an annotation, not read back from the object: a template that somebody
changed by hand is put right, be the kept rendering an old one or not.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.gate_config import SliceConfig
from tidegate.core import gate_config, names

Document = dict[str, Any]
_LONGEST = 128 * 1024
"""Characters of a template that is noted: all annotations of an object may have 256 KiB."""
_TOLD = (names.ANNOTATION_GATE, names.ANNOTATION_MEASURED)
"""What was told of the pods when they were made: true of them for as long as they run."""
_EQUAL = (names.ANNOTATION_SERVES,)
"""The same: but where it is not told yet, what the same spec leads to now is true as well."""


@dataclass(frozen=True)
class Kept:
    """Deployments of slices as they are to be applied; `waiting` names those of another rendering.

    Of the latter, what gates are told is what they were made with.
    """

    slices: tuple[Document, ...]
    waiting: tuple[str, ...] = ()


def keep(rendered: Iterable[Document], live: Iterable[Document]) -> Kept:
    """Give each slice that is there the template that it was made with, and others their own."""
    there = {found["metadata"]["name"]: found for found in live}
    documents, waiting = [], []
    for document in rendered:
        name = document["metadata"]["name"]
        found = there.get(name)
        before = template_of(found) if found is not None else None
        if found is None or before is None or before == document["spec"]["template"]:
            documents.append(noted(document))
        else:
            documents.append(noted(_carried(document, found, before)))
            waiting.append(name)
    return Kept(tuple(documents), tuple(sorted(waiting)))


def told(kept: Kept) -> tuple[SliceConfig, ...]:
    """Return what gates are told of the slices whose newer rendering waits."""
    return gate_config.of_others(
        [
            document["metadata"]["annotations"]
            for document in kept.slices
            if document["metadata"]["name"] in kept.waiting
        ]
    )


def template_of(deployment: Document) -> Document | None:
    """Return the template as it was applied; None where that is not told, or not readable."""
    annotations = deployment["metadata"].get("annotations") or {}
    try:
        template = json.loads(annotations[names.ANNOTATION_RENDERED])
    except (KeyError, ValueError):
        return None
    return template if _is_template(template) else None


def _is_template(value: object) -> bool:
    """Say whether it has the parts that are read of one: anybody may write an annotation."""
    if not isinstance(value, dict) or set(value) != {"metadata", "spec"}:
        return False
    metadata, spec = value["metadata"], value["spec"]
    return (
        isinstance(metadata, dict)
        and isinstance(metadata.get("labels"), dict)
        and isinstance(spec, dict)
        and isinstance(spec.get("containers"), list)
    )


def _carried(document: Document, found: Document, template: Document) -> Document:
    """Return a Deployment with the pods of before; only what restarts none of them is of now."""
    annotations: Mapping[str, str] = found["metadata"].get("annotations") or {}
    mine = {k: v for k, v in document["metadata"]["annotations"].items() if k not in _TOLD}
    mine |= {key: annotations[key] for key in (*_TOLD, *_EQUAL) if key in annotations}
    selector = found["spec"].get("selector") or document["spec"]["selector"]
    return {
        **document,
        "metadata": {**document["metadata"], "annotations": mine},
        "spec": {**document["spec"], "selector": selector, "template": template},
    }


def noted(document: Document) -> Document:
    """Write the template down beside itself; one that is too long is not, and waits for nothing."""
    text = json.dumps(document["spec"]["template"], sort_keys=True, separators=(",", ":"))
    if len(text) > _LONGEST:
        return document
    annotations = {**document["metadata"]["annotations"], names.ANNOTATION_RENDERED: text}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}
