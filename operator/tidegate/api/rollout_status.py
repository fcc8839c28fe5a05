"""`status.rollout`: how far a rollout is. The operator goes on from here after any restart."""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.api.wire import Wire

Count = Annotated[int, Field(ge=0)]
Line = Annotated[str, Field(max_length=1024)]
Revision = Annotated[str, Field(max_length=32)]
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
Phase = Literal["Settled", "Canary", "Promoting", "Aborting", "Aborted"]


class FailedRevision(Wire):
    """A revision that was taken back; it is not tried again until somebody says so."""

    revision: Revision
    """The revision."""
    at: Time
    """When it was taken back."""
    because: Line
    """Why."""


class LeavingRevision(Wire):
    """A revision whose pods are on their way out; until then it gets no more than it had."""

    revision: Revision
    """The revision."""
    share: Annotated[int, Field(ge=0, le=1000)]
    """The share of the requests that it had, in thousandths."""


class VerdictCounts(Wire):
    """Verdicts of the looks of this step."""

    passed: Count = 0
    """Looks at which every metric passed."""
    inconclusive: Count = 0
    """Looks at which too little was known."""
    errors: Count = 0
    """Looks at which a question had no usable answer."""


class RolloutStatus(Wire):
    """The state of the rollout; what is absent does not apply."""

    summary: Annotated[str, Field(max_length=128)]
    """Phase, step and weight in a few words, for the printer column."""
    phase: Phase
    """Settled, Canary, Promoting, Aborting or Aborted."""
    stable: Revision
    """The revision that is known to be good."""
    canary: Revision | None = None
    """The revision that is tried, taken on, or was taken back."""
    baseline: Revision | None = None
    """The revision of the fresh stable pods that the canary is compared with."""
    step: Count = 0
    """The step of `spec.rollout.steps`, from 0."""
    step_since: Time
    """When the step or the phase began."""
    ready_since: Time | None = None
    """When the pods of the step were ready: it has had its weight since then."""
    evidence_since: Time | None = None
    """From when on requests count as evidence, across the steps."""
    judged_since: Time | None = None
    """When the analysis of this step began: at its first requests."""
    looked_at: Time | None = None
    """When metrics were looked at last."""
    requests: Count = 0
    """Requests of the canary in the evidence at the last look."""
    stretch: Count = 1
    """How often the evidence of this revision began anew."""
    verdicts: VerdictCounts = VerdictCounts()
    """Verdicts of this step."""
    inconclusive_since: Time | None = None
    """When the step's deadline passed without a verdict."""
    paused_since: Time | None = None
    """When it was paused."""
    stable_down_since: Time | None = None
    """When the stable revision was last seen to serve nobody."""
    is_judged: bool = False
    """Whether all steps of the canary have passed."""
    because: Line = ""
    """What led to this phase."""
    failed: Annotated[list[FailedRevision], Field(max_length=8)] = []
    """Revisions that were taken back, the newest last."""
    leaving: Annotated[list[LeavingRevision], Field(max_length=8)] = []
    """Revisions that have pods still, and no part in the rollout."""
    token: Annotated[str, Field(max_length=64)] = ""
    """Token of the last command that was seen."""
