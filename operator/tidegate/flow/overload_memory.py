"""What a process remembers of the slow loop. Losing it costs a few ticks: status has the shares."""

from dataclasses import dataclass, field

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.overload.decision import Decision, Timers
from tidegate.core.overload.signal import Signals
from tidegate.core.status.conditions import Verdict
from tidegate.flow.ports import Document, Ref


@dataclass(frozen=True)
class Overseen:
    """What the loop came to for a deployment at its last tick.

    Attributes:
        decision: What holds; None where there is nothing to decide by, nor a lever.
        timers: What the next decision is to remember.
        signals: What is known of the pools.
        metrics: Whether Prometheus tells what is decided by; in the words in which that began.
        at: When, seconds since 1970.
        uid: Of which deployment of that name: one that is made anew is another.
    """

    decision: Decision | None
    timers: Timers
    signals: Signals
    metrics: Verdict
    at: float
    uid: str


@dataclass
class OverloadMemory:
    """`specs` has the spec of each deployment as it was read last, by uid and generation."""

    seen: dict[Ref, Overseen] = field(default_factory=dict)
    specs: dict[Ref, tuple[tuple[str, int], LLMDeploymentSpec | None]] = field(default_factory=dict)

    def of(self, ref: Ref, document: Document) -> Overseen | None:
        """Return what was seen of a deployment; None where there was no tick with it yet."""
        seen = self.seen.get(ref)
        return seen if seen is not None and seen.uid == document["metadata"]["uid"] else None

    def forget(self, ref: Ref) -> None:
        """Drop what belongs to a deployment that is gone."""
        self.seen.pop(ref, None)
        self.specs.pop(ref, None)
