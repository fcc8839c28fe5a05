"""What a pod was measured to do, by the gate's own clock."""

from math import exp

MEMORY_BUSY_SECONDS = 10.0
"""Seconds of prefill that the speed looks back on."""
ESTIMATE_WEIGHT_SECONDS = 0.5
"""The plan's estimate of the speed weighs as much as so many seconds of prefill."""
ESTIMATE_WEIGHT_TOKENS = 1024
"""Nor more than so many tokens: an estimate that is far too high gives way to the first prompts."""
TELLING_TOKENS = 256
TELLING_SECONDS = 0.25
"""A stretch of prefill with fewer tokens that is over sooner tells the engine's latency, no speed.

A step takes an engine some milliseconds however little it prefills: four tokens in ten of them
are no 400 tokens per second.
"""
MEMORY_SAMPLES = 256
"""Samples that the time per output token looks back on."""
FEW_SAMPLES = 16
MEMORY_VISITS = 64


class PrefillSpeed:
    """Prompt tokens that reached their first token per second in which any had not yet."""

    __slots__ = ("_new_seconds", "_new_tokens", "_seconds", "_since", "_tokens", "per_second")

    def __init__(self) -> None:
        self._seconds = self._tokens = 0.0
        self._new_seconds = self._new_tokens = 0.0  # of this stretch, while it may tell nothing
        self._since: float | None = None
        self.per_second: float | None = None
        """Tokens per second; None while neither planned nor measured."""

    def guess(self, tokens_per_second: float) -> None:
        """Take the plan's estimate, unless something is known already."""
        if self.per_second is None:
            self._tokens = min(ESTIMATE_WEIGHT_TOKENS, tokens_per_second * ESTIMATE_WEIGHT_SECONDS)
            self._seconds = self._tokens / tokens_per_second
            self.per_second = tokens_per_second

    def began(self, now: float) -> None:
        """Count time from here on: a prompt waits where none did."""
        self._since = now
        self._new_seconds = self._new_tokens = 0.0

    def reached(self, prompt_tokens: int, now: float) -> None:
        """A prompt has its first token."""
        since = self._since
        if since is None:
            return
        seconds = max(0.0, now - since)
        self._since = since + seconds
        self._new_seconds += seconds
        self._new_tokens += prompt_tokens
        if self._new_tokens >= TELLING_TOKENS or self._new_seconds >= TELLING_SECONDS:
            self._learn()

    def rested(self) -> None:
        """No prompt waits any more."""
        self._since = None

    def _learn(self) -> None:
        keep = exp(-self._new_seconds / MEMORY_BUSY_SECONDS)
        self._seconds = self._seconds * keep + self._new_seconds
        self._tokens = self._tokens * keep + self._new_tokens
        self._new_seconds = self._new_tokens = 0.0
        if self._seconds > 0 and self._tokens > 0:
            self.per_second = self._tokens / self._seconds


class TimePerToken:
    """Seconds per output token as a line over the number of requests that run."""

    __slots__ = ("_cross", "_running", "_seconds", "_seen", "_square")

    def __init__(self) -> None:
        self._seen = 0
        self._running = self._seconds = self._square = self._cross = 0.0

    def add(self, running: int, seconds: float) -> None:
        """Take one sample: seconds per token while so many ran."""
        self._seen += 1
        weight = 1.0 / min(self._seen, MEMORY_SAMPLES)
        self._running += (running - self._running) * weight
        self._seconds += (seconds - self._seconds) * weight
        self._square += (running * running - self._square) * weight
        self._cross += (running * seconds - self._cross) * weight

    def at(self, running: int) -> float | None:
        """Predict the seconds per token with so many running; None where too little was seen."""
        if self._seen < FEW_SAMPLES:
            return None
        variance = self._square - self._running * self._running
        # One request more or less says nothing yet; its square tames a slope out of noise.
        slope = max(0.0, self._cross - self._running * self._seconds) / (variance + 1.0)
        return max(0.0, self._seconds + slope * (running - self._running))


class Stay:
    """How long a token that is held stays on a pod, the mean over those of the last visits.

    By Little's law the tokens that are let go in a second are what is held / this. Requests that
    hold more stay longer, so the mean is over tokens; that over requests would be too short.
    """

    __slots__ = ("_seconds", "_tokens")

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    def add(self, seconds: float, tokens: int) -> None:
        """Take note of a visit that is over, and of what it held."""
        keep = 1.0 - 1.0 / MEMORY_VISITS
        self._tokens = self._tokens * keep + tokens
        self._seconds = self._seconds * keep + tokens * seconds

    @property
    def seconds(self) -> float | None:
        """Mean seconds from seat to end; None before the first end."""
        return self._seconds / self._tokens if self._tokens else None
