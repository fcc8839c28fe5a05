"""From what a test found to a verdict: the one rule for all metrics that are tested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.core.analysis import betting
from tidegate.core.analysis.evidence import Bound, Evidence, Measurement, Metric, Verdict
from tidegate.core.analysis.timeline import Pair

_LEAST_SHOWN = 0.0001
_WHOLE_FROM = 100.0


@dataclass(frozen=True)
class Comparison:
    """A canary's value beside its baseline's, and what a test says of the difference.

    Attributes:
        canary: The canary's value, in the metric's unit.
        baseline: The baseline's.
        samples: What the canary's value rests on.
        baseline_samples: What the baseline's rests on.
        log_winnings: Of the bet that the canary is worse than its baseline.
        is_beyond_half: It is worse by more than half of the margin, as measured.
        is_ruled_out: It is not worse by the margin or more, beyond doubt (`limits.LEVEL`).
        breaks_absolute: It is beyond the absolute bound, and its baseline is not.
    """

    canary: float
    baseline: float
    samples: float
    baseline_samples: float
    log_winnings: float
    is_beyond_half: bool
    is_ruled_out: bool
    breaks_absolute: bool = False

    @property
    def p_value(self) -> float:
        """Chance of an equal canary to look so bad at any look."""
        return betting.chance(self.log_winnings)

    def verdict(self, error_rate: float) -> Verdict:
        """Return what follows at an error rate.

        A bound that the baseline breaks as well does not tell the two apart: it is left aside, so
        that a better revision can be rolled out while the bound is broken.
        """
        if self.p_value <= error_rate and (self.is_beyond_half or self.breaks_absolute):
            return Verdict.FAIL
        if self.is_ruled_out and not self.breaks_absolute:
            return Verdict.PASS
        return Verdict.INCONCLUSIVE

    def conclusion(self, error_rate: float, margin: str) -> str:
        """Return what follows in words, with the margin as it is written for users."""
        verdict = self.verdict(error_rate)
        if verdict is Verdict.FAIL:
            least = max(self.p_value, _LEAST_SHOWN)
            more = "under " if self.p_value < _LEAST_SHOWN else ""
            return f"an equal canary would look so with a chance of {more}{least:.2%}"
        if verdict is Verdict.PASS:
            return f"worse by {margin} or more is ruled out"
        if self.breaks_absolute:
            return "over its bound, which may be chance still"
        return f"worse by {margin} is neither shown nor ruled out yet"


def rate(value: float) -> str:
    """Return events per 1,000 requests as they are written: three digits, or whole ones."""
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"


def measured(
    metric: Metric, bound: Bound, found: Comparison, error_rate: float, words: str, margin: str
) -> Measurement:
    """Return a comparison as a measurement: its numbers in `words`, then what follows."""
    return Measurement(
        metric,
        found.verdict(error_rate),
        found.canary,
        found.baseline,
        bound,
        found.samples,
        found.p_value,
        f"{words}; {found.conclusion(error_rate, margin)}",
        found.baseline_samples,
    )


def too_few(
    metric: Metric,
    bound: Bound,
    has: float,
    needs: int,
    of: str,
    samples: tuple[float, float],
    values: tuple[float | None, float | None] = (None, None),
) -> Measurement:
    """Return that there is not enough evidence, and how much would be.

    `samples` and `values` are of the canary and the baseline: to be shown, and no evidence.
    """
    message = f"{has:,.0f} {of}, of at least {needs:,} that a verdict needs on both sides"
    verdict, (canary, baseline) = Verdict.INCONCLUSIVE, values
    return Measurement(
        metric, verdict, canary, baseline, bound, samples[0], None, message, samples[1]
    )


def no_data(
    metric: Metric, bound: Bound, pairs: Sequence[Pair], is_known: Callable[[Evidence], bool]
) -> Measurement:
    """Return that a metric is not known of one side or both. It is not zero."""
    has_canary = any(is_known(pair.canary) for pair in pairs)
    has_baseline = any(is_known(pair.baseline) for pair in pairs)
    side = "canary and the baseline"
    if has_canary != has_baseline:
        side = "baseline" if has_canary else "canary"
    return _open(metric, Verdict.INCONCLUSIVE, bound, f"no data of the {side}")


def not_understood(metric: Metric, bound: Bound, fault: str) -> Measurement:
    """Return that a query was answered by what is not one series."""
    return _open(metric, Verdict.ERROR, bound, fault)


def _open(metric: Metric, verdict: Verdict, bound: Bound, message: str) -> Measurement:
    return Measurement(metric, verdict, None, None, bound, 0.0, None, message)
