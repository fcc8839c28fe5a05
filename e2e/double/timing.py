"""How long a step takes."""

from __future__ import annotations

from dataclasses import dataclass

from e2e.double.scheduler import Step


@dataclass(frozen=True)
class StepTimes:
    """Speed of an engine.

    Attributes:
        step_seconds: every step.
        sequence_seconds: added for each sequence in it.
        prefill_tokens_per_second: prompt tokens in it, in addition.
    """

    step_seconds: float
    sequence_seconds: float
    prefill_tokens_per_second: float

    def seconds(self, step: Step) -> float:
        """Return the duration of a step."""
        prefill = step.prefill_tokens / self.prefill_tokens_per_second
        return self.step_seconds + self.sequence_seconds * len(step.work) + prefill
