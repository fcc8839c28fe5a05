"""How much a lever is to take off, as a person says it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """A share of the requests.

    Attributes:
        points: Percent, 1 to 100.
        is_more: Whether they come on top of what is taken off now.
    """

    points: int
    is_more: bool = False

    def percent(self, present: float | None) -> float | None:
        """Return the share to set, 100 at most; None where it depends on what is not known.

        Args:
            present: Percent of the requests that are turned away or shifted now; None: unknown.
        """
        if not self.is_more:
            return self.points
        return None if present is None else min(100, round(present) + self.points)
