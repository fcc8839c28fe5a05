"""The files of a bundle: each a redacted text under a name that says what it is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.bundle import redact
from tidegate.core.render import manifest

_LARGEST_TEXT = 4 * 2**20
"""Characters of one file that are kept: its end, where the trouble is."""


@dataclass
class Contents:
    """What was gathered so far; everything goes in through here, and so is redacted.

    Attributes:
        files: Text by path in the archive.
        missing: What could not be had, and why.
    """

    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add_objects(self, path: str, found: Iterable[Mapping[str, Any]]) -> None:
        """Add objects of Kubernetes as YAML; none make no file."""
        cleaned = [redact.document(each) for each in found]
        if cleaned:
            self.files[path] = manifest.write(cleaned)

    def add_text(self, path: str, told: str) -> None:
        """Add a log or an answer, the last 4 MiB of it."""
        self.files[path] = redact.text(told)[-_LARGEST_TEXT:]

    def lacks(self, what: str, why: str) -> None:
        """Note what could not be had."""
        self.missing[what] = redact.text(" ".join(why.split()))[:500]

    def summary(self, heading: str) -> str:
        """Return the page that says what is in the archive, and what is not."""
        lines = [heading, "", f"Secrets were never read. {redact.GONE} stands for what looked like"]
        lines += ["one: check the files all the same before you give them to others.", "", "Files:"]
        lines += [f"  {path}" for path in sorted(self.files)]
        if self.missing:
            lines += ["", "Not there:"]
            lines += [f"  {what}: {why}" for what, why in sorted(self.missing.items())]
        return "\n".join(lines) + "\n"
