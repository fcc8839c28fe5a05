"""What the operator's settings say of admission, and what one resource may say of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ANNOTATION = "tidegate.io/admission"
"""On a resource: `Warn` or `Enforce` for its own fit, whatever the operator's settings say."""


class Enforcement(StrEnum):
    """What becomes of a resource that does not fit the nodes."""

    ENFORCE = "Enforce"  # it is refused
    WARN = "Warn"  # it is let in with a warning, and the operator holds it


@dataclass(frozen=True)
class Rules:
    """The operator's settings. `registries` are hosts or paths below one; empty means any."""

    enforcement: Enforcement = Enforcement.ENFORCE
    registries: tuple[str, ...] = ()
    digests_only: bool = False


def enforcement_of(document: Mapping[str, Any], rules: Rules) -> Enforcement | None:
    """Return what holds for a resource; None where its annotation says neither.

    The annotation is about fit alone: what it lets in is held by the operator all the same, so it
    costs nobody a GPU (docs/decisions has why).
    """
    written = annotation(document)
    if written is None:
        return rules.enforcement
    return Enforcement(written) if written in set(Enforcement) else None


def annotation(document: Mapping[str, Any]) -> Any:
    """Return the annotation as it is written, None without one."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations.get(ANNOTATION) if isinstance(annotations, Mapping) else None
