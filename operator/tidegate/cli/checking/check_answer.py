"""The answer on one resource, and how many there are of each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.cli.checking import check_lines
from tidegate.cli.checking.check_sources import Source
from tidegate.core.admission import Finding, Review


@dataclass(frozen=True)
class Answer:
    """A resource and its review."""

    source: Source
    review: Review

    @property
    def name(self) -> str:
        """The resource's name."""
        return self.source.name or "unnamed"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, the gravest first."""
        return (*self.review.problems, *self.review.warnings, *self.review.notes)

    def line_of(self, finding: Finding) -> int:
        """Return the line of a finding's field in the resource's file."""
        return check_lines.line_of(self.source, finding.field)

    def wire(self) -> dict[str, Any]:
        """Return the answer as a JSON document (docs/reference/cli.md)."""
        return {
            "name": self.name,
            "namespace": self.source.namespace,
            "file": self.source.path,
            "allowed": self.review.allowed,
            "verdicts": [finding.wire() for finding in self.findings],
        }


def is_good(answers: Sequence[Answer], *, strict: bool) -> bool:
    """Say whether all resources are let in; with `strict`, without a warning too."""
    return all(
        answer.review.allowed and not (strict and answer.review.warnings) for answer in answers
    )
