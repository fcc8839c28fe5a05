"""A deployment that had more shifted to it than it bears.

Where its queue is full or empty, it tells no more than that what it has is too much, or is not: a
share that grew while it was calm, and went back while it was pressed, would swing for ever.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pressed:
    """What it did not bear, and what it did.

    Attributes:
        target: The deployment.
        borne: Percent, of the requests of the one that shifts, that it let in of what it was sent
            when its signals were over no longer.
        at: When it was pressed last, seconds since 1970.
        is_now: Whether it still is.
        has_eased: Whether its signals are over no longer; it may still turn requests away.
        vain_tries: How often it was pressed again by what was sent after that.
    """

    target: str
    borne: int
    at: float
    is_now: bool = True
    has_eased: bool = False
    vain_tries: int = 0
