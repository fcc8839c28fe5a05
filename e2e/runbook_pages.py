"""The runbooks as a reader uses them: their commands and queries, block by block."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "runbooks"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One runbook."""

    name: str
    text: str

    @property
    def headings(self) -> list[str]:
        """Its sections, in order."""
        return _HEADING.findall(self.text)

    @property
    def queries(self) -> list[str]:
        """What it asks Prometheus."""
        return [block.strip() for kind, block in self._blocks() if kind == "promql"]

    @property
    def commands(self) -> list[str]:
        """Its commands, a line each, in order."""
        return [
            line
            for kind, block in self._blocks()
            if kind == "sh"
            for line in block.replace("\\\n", " ").splitlines()
            if line.strip()
        ]

    @property
    def kinds(self) -> set[str]:
        """The languages of its blocks."""
        return {kind for kind, _ in self._blocks()}

    def section(self, heading: str) -> str:
        """Return the text under a heading."""
        return self.text.partition(f"## {heading}\n")[2].partition("\n## ")[0]

    def _blocks(self) -> list[tuple[str, str]]:
        return _BLOCK.findall(self.text)


def pages() -> list[Page]:
    """Return every runbook."""
    return [
        Page(file.stem, file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.md"))
    ]
