"""Whether a figure is to be gone by: one value, its time, and how many claim to be it.

Whatever keeps it from being known is told, the first thing that applies: told twice, not told, no
number, out of its range, without a time, from the future, too old.
"""

import math
from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.overload.rows import Figures
from tidegate.core.overload.signal import Reading, Sample, Unknown

SCRAPES_UNTIL_STALE = 3
"""An instant query gives samples up to five minutes old: of a target that is scraped no more."""
MOST_AHEAD_SECONDS = 5.0
"""How far the clocks of Prometheus and the operator may be apart."""
SHARE = (0.0, 1.0)
ANY_AMOUNT = (0.0, math.inf)


@dataclass(frozen=True)
class Scrapes:
    """When the question was asked, seconds since 1970, and how often Prometheus scrapes.

    `took_seconds` is how long the answer took: until then samples came, and may be in it.
    """

    now: float
    interval_seconds: float
    took_seconds: float = 0.0

    def judge(
        self,
        what: str,
        figures: Figures,
        value: float | None,
        within: tuple[float, float] = ANY_AMOUNT,
        at: str = "at",
    ) -> Reading:
        """Return a value with its time, or why it is not to be gone by.

        Args:
            what: What it is of, for the message.
            figures: All that was told of it; with how many `copies` there are.
            value: The value, None where it was not told.
            within: Its least and its greatest; infinite is none at all.
            at: Which of the figures is its time.
        """
        if figures.twice or (figures.get("copies") or 1) > 1:
            return Unknown(Reason.METRICS_AMBIGUOUS, f"{what}: two series claim to be the same one")
        if value is None:
            return missing(what)
        if not within[0] <= value <= within[1] or math.isinf(value):
            bounds = "" if within == ANY_AMOUNT else f", not {within[0]:g} to {within[1]:g}"
            return Unknown(Reason.METRICS_NOT_A_NUMBER, f"{what} is {value:g}{bounds}")
        return self._dated(what, value, figures.get(at))

    def _dated(self, what: str, value: float, at: float | None) -> Reading:
        if at is None or not math.isfinite(at):
            return Unknown(Reason.METRICS_STALE, f"{what}: its sample has no time")
        age, limit = self.now - at, SCRAPES_UNTIL_STALE * self.interval_seconds
        ahead = -age - self.took_seconds
        if ahead > MOST_AHEAD_SECONDS:
            return Unknown(
                Reason.METRICS_STALE,
                f"{what}: its sample is {ahead:.0f} s in the future; compare the clocks",
            )
        if age > limit:
            told = f"{age:.0f}" if round(age) > limit else f"{math.ceil(10 * age) / 10:.1f}"
            return Unknown(
                Reason.METRICS_STALE, f"{what}: its sample is {told} s old, over {limit:g} s"
            )
        return Sample(value, at)


def missing(what: str, why: str = "Prometheus has no series of it") -> Unknown:
    """Return that something was not told."""
    return Unknown(Reason.METRICS_MISSING, f"{what}: {why}")
