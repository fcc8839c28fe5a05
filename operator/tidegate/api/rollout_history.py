"""One look at a canary as the history keeps it: a line of JSON in the ConfigMap `NAME-rollout`.

Every number was measured, by gates, engines or the operator; what is absent was not known. Units
are those of the metric (docs/concepts/canary-analysis.md): times in seconds, survival as a share.
"""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.api.rollout_status import Count, Revision, Time
from tidegate.api.wire import Wire

Verdict = Literal["Pass", "Fail", "Inconclusive", "Error"]
Word = Annotated[str, Field(max_length=32)]
Sentence = Annotated[str, Field(max_length=256)]
Amount = Annotated[float, Field(ge=0)]


class MetricLook(Wire):
    """One metric of both sides at one look."""

    metric: Word
    """`ttftP50`, `ttftP95`, `tpotP50`, `tpotP95`, `survival`, and so on."""
    verdict: Verdict
    """Pass, Fail, Inconclusive or Error."""
    canary: float | None = None
    """The canary's value."""
    stable: float | None = None
    """That of the revision that it is compared with."""
    absolute: float | None = None
    """What the canary must not be worse than, whatever the other side is: the SLO."""
    margin: float | None = None
    """How much worse than the other side must be caught."""
    samples: Amount = 0.0
    """What the canary's value rests on: requests, or intervals for memory."""
    stable_samples: Amount | None = None
    """The same of the other side."""
    message: Sentence | None = None
    """Why it is not Pass, with the numbers."""


class RolloutLook(Wire):
    """One look at a canary: what was measured of all metrics, and what followed."""

    at: Time
    """When."""
    revision: Revision
    """The canary."""
    stable: Revision
    """The stable revision beside it."""
    compared_with: Revision | None = None
    """The baseline that it is compared with, where that is not all of stable."""
    stretch: Count = 1
    """How often the evidence of this revision began anew."""
    step: Count
    """The step of `spec.rollout.steps`, from 1."""
    weight_percent: Annotated[int, Field(ge=0, le=100)]
    """The canary's share of the requests."""
    requests: Count | None = None
    """Requests of the canary in the evidence."""
    verdict: Verdict
    """The worst of all metrics."""
    message: Sentence = ""
    """What decides, in a sentence."""
    how: Literal["measured"] = "measured"
    """How the numbers were obtained."""
    metrics: Annotated[list[MetricLook], Field(max_length=16)] = []
    """What was measured; empty where there was no answer."""
