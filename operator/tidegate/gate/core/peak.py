"""How many blocks the requests of a pod will hold at once, as they grow and end.

All of them grow at one pace, a token at a time, and each gives everything back when it ends. So
the sum of what each holds at its end is never needed at once, unless all end together: a pod
whose requests are at all stages holds about half of their answers at any time. The most that is
needed comes just before one of them ends.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter


@dataclass(slots=True)
class Growing:
    """One request: blocks now, tokens that it has yet to make, and blocks per token until then."""

    blocks: int
    remaining_tokens: int
    blocks_per_token: float


_by_remaining = attrgetter("remaining_tokens")


class Peak:
    """The most blocks that some requests will hold at once."""

    __slots__ = ("_points", "at_tokens", "blocks", "growth_blocks")

    def __init__(self, requests: Iterable[Growing]) -> None:
        held = growth = 0.0
        self.blocks = 0.0
        self.at_tokens = 0
        self.growth_blocks = 0.0
        """Blocks that they will take beside those that they have."""
        self._points: list[tuple[int, float, float]] = []
        """Tokens from now, blocks then held, and their growth per token; the last to end first."""
        for request in sorted(requests, key=_by_remaining, reverse=True):
            held += request.blocks
            growth += request.blocks_per_token
            at = request.remaining_tokens
            self.growth_blocks += request.blocks_per_token * at
            self._points.append((at, held, growth))
            if held + growth * at >= self.blocks:
                self.blocks = held + growth * at
                self.at_tokens = at

    def with_one_more(self, one: Growing, enough: float) -> float:
        """Return the peak with one more; any number above `enough` stands for too much."""
        if self.at_tokens <= one.remaining_tokens:
            least = self.blocks + one.blocks + one.blocks_per_token * self.at_tokens
            if least > enough:
                return least
        stays = one.remaining_tokens
        peak = own = one.blocks + one.blocks_per_token * stays
        for at, held, growth in self._points:
            if at > stays:
                total = held + growth * at
                own = held + growth * stays + one.blocks + one.blocks_per_token * stays
            else:
                total = held + one.blocks + (growth + one.blocks_per_token) * at
            if total > peak:
                peak = total
        return max(peak, own)
