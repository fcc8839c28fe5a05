"""How far shares may go back for what was found out about queues, and when less is tried."""

from tidegate.core.overload import recent
from tidegate.core.overload.decision import Timers

PATIENCE_SECONDS = 600.0
"""Under `exit` before less than is safe is tried, while as many requests come as before.

Of a tenth of them a tenth as long: what was found out then tells less and less of now.
"""
MOST_PATIENCE_SECONDS = 3600.0
MOST_BLIND_PATIENCE_SECONDS = 300.0
"""Where it is not known how many come: so long shares may outlast a load that ended."""
_MOST_DOUBLINGS = 16


def borne_percent(timers: Timers) -> int:
    """Return the share below which queues grow, or may; 0 where nothing says so."""
    bracket = timers.bracket
    return bracket.safe_percent(recent.highest(timers.offered)) if bracket else 0


def patience_seconds(timers: Timers, exit_after_seconds: float) -> float:
    """Return how long signals must be under `exit` before less than is safe is tried."""
    least = exit_after_seconds
    if timers.is_trying:
        return least
    part = _offered_part(timers)
    first = least if part is None else max(least, part * PATIENCE_SECONDS)
    most = MOST_BLIND_PATIENCE_SECONDS if part is None else MOST_PATIENCE_SECONDS
    return doubled_seconds(first, timers.vain_tries, max(least, most))


def doubled_seconds(first: float, vain_tries: int, most: float = MOST_PATIENCE_SECONDS) -> float:
    """Return how long to wait for the next try: twice as long after each vain one, up to a most."""
    return min(most, first * 2.0 ** min(vain_tries, _MOST_DOUBLINGS))


def _offered_part(timers: Timers) -> float | None:
    """Return what comes in parts of what came when the bracket was found; None where unknown."""
    before = timers.bracket.offered_per_second if timers.bracket else None
    now = recent.highest(timers.offered)
    return now / before if before and now is not None else None
