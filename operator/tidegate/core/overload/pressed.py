"""A deployment that had more shifted to it than it bears.

Where its queue is full or empty, it tells no more than that what it has is too much, or is not: a
share that grew while it was calm, and went back while it was pressed, would swing for ever.
"""

import math
from dataclasses import dataclass

_SAFE_PART = 0.3
"""Of what was too much, where less is left by the time that the target's calm shows: while it lets
go of its own sheds, the share goes on falling, and what it bears is not known to be so little."""


@dataclass(frozen=True)
class Pressed:
    """What it did not bear, and what it did; both in percent of the source's requests.

    Attributes:
        target: The deployment.
        too_much: The share that it was sent when it began to be pressed.
        borne: What it let in of what it was sent, once its signals were over no longer and had
            stayed so until that showed.
        at: When it was pressed last, seconds since 1970.
        is_now: Whether it still is.
        eased_at: Since when its signals are over no longer; None while they are. It may still turn
            requests away.
        vain_tries: How often it was pressed again by what was sent after that.
    """

    target: str
    too_much: int
    borne: int
    at: float
    is_now: bool = True
    eased_at: float | None = None
    vain_tries: int = 0

    @property
    def safe_percent(self) -> int:
        """The share up to which it may be sent more before it is time for another try."""
        return max(self.borne, math.floor(self.too_much * _SAFE_PART))
