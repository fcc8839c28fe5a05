"""What is told of a reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """What a reason means, and what to do about it."""

    meaning: str
    action: str
