"""The state of a rollout: all that must survive the operator's process. Times are wall clock."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

MOST_FAILED = 8
"""Failed revisions that are remembered; who goes back further starts anew."""


class Phase(StrEnum):
    """Where a rollout stands."""

    SETTLED = "Settled"  # the spec's revision is the stable one
    CANARY = "Canary"  # a new revision has a share of the requests
    PROMOTING = "Promoting"  # a new revision replaces all others
    ABORTING = "Aborting"  # a revision was taken back, the stable one comes to full strength
    ABORTED = "Aborted"  # the spec's revision was taken back, the stable one serves


@dataclass(frozen=True)
class Failed:
    """A revision that was taken back; it is not tried again by itself."""

    revision: str
    at: float
    because: str


@dataclass(frozen=True)
class Leaving:
    """A revision whose pods are on their way out, and the share of the requests that it had.

    In thousandths. It gets no more than that while another one can serve.
    """

    revision: str
    share: int


@dataclass(frozen=True)
class Verdicts:
    """How often the looks of one step said what."""

    passed: int = 0
    inconclusive: int = 0
    errors: int = 0


@dataclass(frozen=True)
class State:
    """Where the rollout stands, seconds since 1970.

    `baseline` is the revision of fresh stable pods that a canary is compared with, None where it
    is compared with all of stable.
    `since` is when the step, or the phase, began. `ready_since`: the step's pods were ready, so it
    has had its weight. `evidence_since`: requests count from then on, across steps; `stretch`
    counts how often that began anew. `judged_since`: this step's analysis began. `requests` are
    those of the canary at the last look. `doubtful_since`: the step's deadline passed without a
    verdict. `stable_down_since`: no pod of the stable revision can serve. `is_judged`: every step
    has passed. `leaving` are the revisions that have pods and no part in it any more. `token` is of
    the last command that was seen.
    """

    phase: Phase
    stable: str
    since: float
    canary: str | None = None
    baseline: str | None = None
    step: int = 0
    ready_since: float | None = None
    evidence_since: float | None = None
    judged_since: float | None = None
    looked_at: float | None = None
    requests: int = 0
    stretch: int = 1
    verdicts: Verdicts = Verdicts()
    doubtful_since: float | None = None
    paused_since: float | None = None
    stable_down_since: float | None = None
    is_judged: bool = False
    because: str = ""
    failed: tuple[Failed, ...] = ()
    leaving: tuple[Leaving, ...] = ()
    token: str = ""

    @property
    def winner(self) -> str:
        """The revision that is to have all pods and requests in the end, as things stand."""
        if self.phase is Phase.PROMOTING and self.canary:
            return self.canary
        return self.stable

    def failure_of(self, revision: str) -> Failed | None:
        """Return why a revision was taken back, None where it was not."""
        return next((entry for entry in self.failed if entry.revision == revision), None)

    def acts_like(self, other: "State") -> bool:
        """Say whether pods and shares follow from both alike: they differ in looks at most."""
        return replace(self, **_of_looks(other)) == other

    @property
    def compared_with(self) -> str:
        """The revision that a canary is compared with."""
        return self.baseline or self.stable

    def beside(self, baseline: str | None, now: float) -> "State":
        """Return the state in which a step begins anew, compared with another revision."""
        again = replace(self.at_step(self.step, now), baseline=baseline, because="")
        stretch = self.stretch + (self.evidence_since is not None)
        return replace(again, evidence_since=None, requests=0, stretch=stretch)

    def at_step(self, step: int, now: float) -> "State":
        """Return the state at the beginning of a step; the evidence so far stays."""
        return replace(
            self,
            phase=Phase.CANARY,
            step=step,
            since=now,
            ready_since=None,
            judged_since=None,
            looked_at=None,
            verdicts=Verdicts(),
            doubtful_since=None,
        )

    def in_phase(self, phase: Phase, now: float, because: str, canary: str | None) -> "State":
        """Return the state at the beginning of a phase other than a canary's steps.

        What is stable, or replaces all others, has not failed any more, whatever it once did.
        """
        good = {self.stable, canary if phase is Phase.PROMOTING else None}
        return State(
            phase=phase,
            stable=self.stable,
            since=now,
            canary=canary,
            step=self.step if phase is not Phase.SETTLED else 0,
            stretch=self.stretch,
            stable_down_since=self.stable_down_since,
            is_judged=self.is_judged and phase is Phase.PROMOTING,
            because=because,
            failed=tuple(entry for entry in self.failed if entry.revision not in good),
            token=self.token,
        )


def _of_looks(state: State) -> dict[str, Any]:
    return {
        "looked_at": state.looked_at,
        "requests": state.requests,
        "verdicts": state.verdicts,
        "because": state.because,
    }
