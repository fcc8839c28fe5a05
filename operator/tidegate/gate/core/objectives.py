"""What admitted requests are to have: declared, or learned from pods that were idle."""

from tidegate.api.gate_config import Slo
from tidegate.gate.core.samples import Samples

TTFT_TIMES_UNLOADED = 5.0
TPOT_TIMES_UNLOADED = 3.0
"""Slower than this, relative to a quiet engine, is what people call slow."""
LEAST_TTFT_SECONDS = 0.2
LEAST_TPOT_SECONDS = 0.02
"""What nobody finds slow: an instant reaction, and more tokens than anyone reads."""
SAMPLES = 63
"""Samples whose median is taken; odd, so that there is one."""
ENOUGH_SAMPLES = 9
"""Unloaded requests from which on their TTFT is trusted; a single one may be of any length."""
LONG_PROMPT_SLACK = 0.25
"""Share of the SLO that a prompt may wait whose own prefill leaves less of it."""
LATE_STEP = 0.04
LATE_SHARE = 0.01
"""Of the requests that are seated, at most about this share may miss the SLO."""
LEAST_MARGIN = 0.5


class Objectives:
    """TTFT and TPOT that admission keeps, in seconds; None where nothing is known.

    Predictions are off now and then. So the TTFT that is aimed at lies below the SLO by a margin,
    which grows with each answer that came late and shrinks with each that came in time, until
    about `LATE_SHARE` are late.
    """

    def __init__(self) -> None:
        self._declared = Slo()
        self._ttft = Samples(SAMPLES)
        self._tpot = Samples(SAMPLES)
        self._prompts = Samples(SAMPLES)
        self._margin = 1.0
        self._slo: float | None = None
        self.ttft_seconds: float | None = None
        """The TTFT that is aimed at."""
        self.tpot_seconds: float | None = None

    def declare(self, slo: Slo) -> None:
        """Take what the user declares."""
        self._declared = slo
        self.settle(None)

    def first_token(
        self, prompt_tokens: int, seconds: float, waited_seconds: float, *, was_idle: bool
    ) -> None:
        """Take note of a first token: `seconds` on the pod, after waiting in the gate."""
        self._prompts.add(prompt_tokens)
        if was_idle:
            self._ttft.add(seconds)
        if self._slo is None:
            return
        if seconds + waited_seconds > self._slo:
            # A pod that was idle was the best there was: no margin would have helped.
            if not was_idle:
                self._margin = max(LEAST_MARGIN, self._margin - LATE_STEP)
        else:
            self._margin = min(1.0, self._margin + LATE_STEP * LATE_SHARE)
        self.ttft_seconds = self._slo * self._margin

    def unloaded_tpot(self, seconds: float) -> None:
        """Take the time per output token of a request that was alone on its pod."""
        self._tpot.add(seconds)

    def allowed_ttft(self, own_seconds: float) -> float | None:
        """Return the TTFT that a prompt may have whose prefill alone takes `own_seconds`.

        A prompt that is too long to meet the SLO even when alone is not turned away for ever:
        it may wait a part of the SLO, and then takes what it takes.
        """
        slo = self.ttft_seconds
        if slo is None:
            return None
        return max(slo, own_seconds + LONG_PROMPT_SLACK * slo)

    def settle(self, prefill_tokens_per_second: float | None) -> None:
        """Work out what is aimed at, from what was declared, learned, or else is likely.

        Where few requests found an idle pod, the unloaded TTFT is that of the median prompt at
        the speed of prefill.
        """
        slo = self._declared
        unloaded = self._ttft.median
        typical = self._prompts.median
        if len(self._ttft) < ENOUGH_SAMPLES and typical and prefill_tokens_per_second:
            unloaded = typical / prefill_tokens_per_second
        self._slo = slo.time_to_first_token
        if self._slo is None and unloaded is not None:
            self._slo = max(LEAST_TTFT_SECONDS, TTFT_TIMES_UNLOADED * unloaded)
        self.ttft_seconds = None if self._slo is None else self._slo * self._margin
        self.tpot_seconds = slo.time_per_output_token
        unloaded = self._tpot.median
        if self.tpot_seconds is None and len(self._tpot) >= ENOUGH_SAMPLES and unloaded:
            self.tpot_seconds = max(LEAST_TPOT_SECONDS, TPOT_TIMES_UNLOADED * unloaded)
