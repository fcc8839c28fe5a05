"""What one seat holds, and what has become of it."""

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.pod_book import PodBook

LOOK_EVERY_TOKENS = 16
"""A stream's growth is booked, and its speed sampled, once in so many tokens: one block of most."""


class Entry:
    """What one seat holds."""

    __slots__ = (
        "began_at",
        "blocks",
        "demand",
        "failed",
        "first_at",
        "has_token",
        "is_open",
        "look_at",
        "looked_at",
        "looked_tokens",
        "made_tokens",
        "pod",
        "prefill",
        "prefill_blocks",
        "prefilled_by",
        "prompt_waits_at",
        "tokens",
        "was_idle",
    )

    def __init__(self, demand: Demand, pod: PodBook, prefill: PodBook | None, now: float) -> None:
        self.demand = demand
        self.pod = pod
        self.prefill = prefill
        self.began_at = now
        self.first_at = now
        self.blocks = 0
        self.prefill_blocks = 0
        self.prefilled_by: str | None = None
        """The prefill pod that returned, until the answer shows that its KV cache came."""
        self.tokens = demand.cost_tokens
        self.made_tokens = 0
        self.look_at = LOOK_EVERY_TOKENS
        self.looked_at = now
        self.looked_tokens = 0
        self.has_token = False
        self.prompt_waits_at = (prefill or pod) if demand.sequences else None
        self.was_idle = not pod.visits and (prefill is None or not prefill.visits)
        self.is_open = True
        self.failed: frozenset[str] = frozenset()
        """Pods that failed this request before."""

    @property
    def works_on_it(self) -> PodBook:
        """The pod that has the request now: of a pair the prefill pod, until it has returned."""
        return self.prefill or self.pod
