"""How many gates told a number: what some told is at least so much, never the whole."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gates:
    """The gates of a deployment: `total` there are, `answering` told what is counted."""

    total: int = 0
    answering: int = 0

    @property
    def by(self) -> str:
        """Say who told, where not all did: `, by 1 of 3 gates`."""
        return f", by {self.answering} of {self.total} gates" if self._is_part else ""

    @property
    def at_least(self) -> str:
        """Say `at least ` where not all told."""
        return "at least " if self._is_part else ""

    @property
    def _is_part(self) -> bool:
        return 0 < self.answering < self.total

    def document(self) -> dict[str, int]:
        """Return it as `--output json` shows it."""
        return {"total": self.total, "answering": self.answering}
