"""How long an engine's pod takes to start: an estimate with a wide band.

It reads its weights and then imports, compiles and captures graphs. Nothing of it follows from the
spec: a warm page cache or a slow shared file system decides. Where it matters, measure.
"""

from dataclasses import dataclass

from tidegate.core.plan import Plan
from tidegate.core.render import timing

_GIB = 2**30
_FASTEST, _USUAL, _SLOWEST = 3 * _GIB, 1 * _GIB, 0.2 * _GIB
"""Bytes a second that a pod reads its weights with: a local NVMe disk or page cache, a fast
volume, a shared file system that others use."""
_QUICK, _BRIEF, _LONG = 20.0, 60.0, 180.0
"""Seconds beside reading: vLLM's own with eager mode (21 s observed with vLLM 0.32), with graphs,
and with a first compile."""


@dataclass(frozen=True)
class Span:
    """Seconds that are estimated, with their band."""

    seconds: float
    low: float
    high: float

    def times(self, count: int) -> "Span":
        """Return so many of them, one after another."""
        return Span(self.seconds * count, self.low * count, self.high * count)

    def plus(self, seconds: float) -> "Span":
        """Return it with what is exact beside it."""
        return Span(self.seconds + seconds, self.low + seconds, self.high + seconds)


def of(plan: Plan) -> Span:
    """Return how long the heaviest pod of a plan takes to start; it is given up after a while."""
    heaviest = max((e.sizing.budget.weights.bytes * e.gpus for e in plan.slices), default=0)
    most = float(timing.STARTUP_SECONDS)
    usual, low, high = (
        min(most, beside + heaviest / rate)
        for beside, rate in ((_BRIEF, _USUAL), (_QUICK, _FASTEST), (_LONG, _SLOWEST))
    )
    return Span(usual, low, high)
