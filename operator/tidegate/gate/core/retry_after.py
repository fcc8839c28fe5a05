"""When a client that is turned away should come back."""

from collections import deque
from collections.abc import Callable

SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
LONGEST_OUTAGE_SECONDS = 60.0
JITTER_SHARE = 0.25
UNKNOWN_SECONDS = 5.0
"""While nothing ended yet and so no drain speed is known."""
UNKNOWN_OUTAGE_SECONDS = 10.0
"""While no outage has ended yet: about an engine's restart with its weights in the page cache."""
OUTAGES = 8

Jitter = Callable[[], float]
"""Returns a random number of [0, 1)."""


def spread(seconds: float, longest: float, jitter: Jitter) -> int:
    """Return whole seconds, ±25 %, between 1 and `longest`."""
    spread_seconds = seconds * (1.0 - JITTER_SHARE + 2.0 * JITTER_SHARE * jitter())
    return round(min(longest, max(SHORTEST_SECONDS, spread_seconds)))


def own_seconds(
    tokens: float, tokens_in_flight: int, stay_seconds: float | None, jitter: Jitter
) -> int:
    """Return whole seconds until who holds `tokens_in_flight` has let go `tokens` of them.

    Each of them stays for so long; None while unknown.
    """
    if stay_seconds is None or not tokens_in_flight:  # all that it has still waits
        return spread(UNKNOWN_SECONDS, LONGEST_SECONDS, jitter)
    return spread(tokens * stay_seconds / tokens_in_flight, LONGEST_SECONDS, jitter)


class Backlog:
    """Tokens of those who were told to come back, by class; they drain as the queue does.

    A queue that is kept short holds little of an overload: most of it is with the clients. Whoever
    is turned away joins the end of that line, so those who come back come at the pace at which
    they can be served.
    """

    def __init__(self, jitter: Jitter) -> None:
        self._jitter = jitter
        self._tokens: dict[int, float] = {}
        self._drained_at = 0.0

    def seconds(
        self, priority: int, cost_tokens: int, queued_tokens: int, drain: float | None, now: float
    ) -> int:
        """Return whole seconds for one more of this class and cost.

        `queued_tokens` wait in the gate ahead of it; `drain` is in tokens per second, None while
        unknown.
        """
        if not drain:
            return spread(UNKNOWN_SECONDS, LONGEST_SECONDS, self._jitter)
        self._drain(drain * max(0.0, now - self._drained_at))
        self._drained_at = now
        told = sum(tokens for other, tokens in self._tokens.items() if other >= priority)
        seconds = (queued_tokens + told + cost_tokens) / drain
        if seconds < LONGEST_SECONDS:
            self._tokens[priority] = self._tokens.get(priority, 0.0) + cost_tokens
        return spread(seconds, LONGEST_SECONDS, self._jitter)

    def _drain(self, tokens: float) -> None:
        for priority in sorted(self._tokens, reverse=True):
            taken = min(tokens, self._tokens[priority])
            tokens -= taken
            self._tokens[priority] -= taken


class Outages:
    """How long the deployment was without pods before, and since when it is now."""

    def __init__(self, jitter: Jitter) -> None:
        self._jitter = jitter
        self._lengths: deque[float] = deque(maxlen=OUTAGES)
        self._since: float | None = None
        self._was_up = False

    def note(self, *, is_up: bool, now: float) -> None:
        """Take note of whether there are pods to serve."""
        if is_up:
            if self._since is not None and self._was_up:
                self._lengths.append(now - self._since)
            self._since = None
            self._was_up = True
        elif self._since is None:
            self._since = now

    def seconds(self, now: float) -> int:
        """Return when to come back: what is left of the usual length, or as long again."""
        lasted = now - self._since if self._since is not None else 0.0
        usual = sorted(self._lengths)[len(self._lengths) // 2] if self._lengths else None
        expected = UNKNOWN_OUTAGE_SECONDS if usual is None else usual
        left = expected - lasted
        seconds = left if left > 0 else lasted
        return spread(seconds, LONGEST_OUTAGE_SECONDS, self._jitter)
