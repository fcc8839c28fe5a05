"""What the loop has found out about an overload: a share that was too little, one that was enough.

A queue tells that too much comes in, not by how much; once it is empty it tells nothing at all. So
how far shares may go back is not read from the signal: it follows from the bracket, and from how
much less comes than when it was found. That the gates tell, whatever they turn away.
"""

import math
from dataclasses import dataclass, replace

_INTO_THE_UNKNOWN = 0.25
"""Part of the way from enough to too little that is taken to be safe, untried.

Wherever between them the truth is, it is beyond this in three of four cases; half of the way would
be a toss, and what is wrong costs two turns.
"""


@dataclass(frozen=True)
class Bracket:
    """Both shares, in percent of the requests, and what came then.

    Attributes:
        too_little: The share at which the load was too much still.
        enough: The one that was reached next; it holds until a signal says otherwise.
        raised_at: When that was, seconds since 1970.
        is_retry: Whether it was too little after all that had been taken to be enough: where chance
            alone may fill a queue, the way back would only be made once more.
        offered_per_second: Requests that came, at most, in the rate's window after that; None
            where it is not known.
    """

    too_little: int
    enough: int
    raised_at: float
    is_retry: bool = False
    offered_per_second: float | None = None

    def heard(
        self, offered_per_second: float | None, now: float, window_seconds: float
    ) -> "Bracket":
        """Return it with a rate that was told: it shows in full once its window has passed."""
        if offered_per_second is None or now - self.raised_at > window_seconds:
            return self
        most = max(offered_per_second, self.offered_per_second or 0.0)
        return replace(self, offered_per_second=most)

    def safe_percent(self, offered_per_second: float | None) -> int:
        """Return the least share that lets in no more than is taken to be safe.

        Args:
            offered_per_second: Requests that come now; None where that is not known, and then as
                many are reckoned with as came before.
        """
        unknown = 0 if self.is_retry else (self.enough - self.too_little) * _INTO_THE_UNKNOWN
        let_in = 100 - self.enough + unknown
        before = self.offered_per_second
        if before and offered_per_second is not None:
            if offered_per_second <= 0:
                return 0
            let_in = min(100.0, let_in * before / offered_per_second)
        return max(0, math.ceil(100 - let_in))
