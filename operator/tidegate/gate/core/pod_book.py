"""One pod as this gate's ledger has it: its part of the pod, and what is promised of it."""

from tidegate.api.gate_config import SliceConfig
from tidegate.gate.core.blocks import BlockRule
from tidegate.gate.core.correction import Correction
from tidegate.gate.core.speeds import PrefillSpeed, Stay, TimePerToken
from tidegate.gate.exchange import Pod, PodView


class PodBook:
    """Room and use of one pod, in KV blocks, sequences and prompt tokens that wait.

    `capacity_blocks` is this gate's share with its headroom; `physical_blocks` is what a single
    request could have of an empty pod. Both are 0 while the pod's slice is unknown: such a pod
    takes one request at a time.
    """

    __slots__ = (
        "backlog_requests",
        "backlog_tokens",
        "blocks",
        "capacity_blocks",
        "correction",
        "full_until",
        "is_present",
        "physical_blocks",
        "pod",
        "prefill",
        "reserved_blocks",
        "reserved_tokens",
        "sequences",
        "sequences_limit",
        "slice",
        "stay",
        "time_per_token",
        "visits",
        "waiting_sequences",
    )

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.slice: SliceConfig | None = None
        self.blocks: BlockRule | None = None
        self.capacity_blocks = 0
        self.physical_blocks = 0
        self.sequences_limit = 1
        self.is_present = True
        self.full_until = 0.0
        self.reserved_blocks = 0
        self.reserved_tokens = 0
        self.visits = 0
        self.sequences = 0
        self.waiting_sequences = 0
        """Sequences without a first token yet."""
        self.backlog_tokens = 0
        self.backlog_requests = 0
        """Requests whose prefill is known to be under way by their answer's first byte."""
        self.correction = Correction()
        self.prefill = PrefillSpeed()
        self.stay = Stay()
        self.time_per_token = TimePerToken()

    def belongs(self, part: SliceConfig | None) -> None:
        """Take the slice's numbers; what was measured of the pod is kept."""
        if part == self.slice:
            return
        self.slice = part
        self.blocks = BlockRule(part.groups) if part else None
        if part and part.prefill_tokens_per_second:
            self.prefill.guess(part.prefill_tokens_per_second)

    def settle(self, headroom: float, gates: int) -> None:
        """Work out this gate's share of the pod."""
        part = self.slice
        if part is None:
            self.capacity_blocks = self.physical_blocks = 0
            self.sequences_limit = 1
            return
        self.physical_blocks = self.correction.blocks or part.kv_blocks
        usable = self.physical_blocks * headroom - self.correction.unseen
        self.capacity_blocks = max(1, int(usable / gates))
        self.sequences_limit = max(1, part.max_num_seqs // gates)

    @property
    def load(self) -> float:
        """Share of its capacity that is reserved; above 1 where it is over-committed."""
        if self.capacity_blocks:
            return self.reserved_blocks / self.capacity_blocks
        return float(self.visits)

    @property
    def backlog_seconds(self) -> float:
        """Time until the prompts that it has now are prefilled; 0 where no speed is known."""
        speed = self.prefill.per_second
        return self.backlog_tokens / speed if speed else 0.0

    @property
    def drain_tokens_per_second(self) -> float | None:
        """Reserved tokens that it releases in a second, by Little's law; None if unknown."""
        seconds = self.stay.seconds
        return self.reserved_tokens / seconds if seconds else None

    def view(self, is_ejected: bool, now: float) -> PodView:
        """Show it."""
        part, correction = self.slice, self.correction
        share = self.capacity_blocks / part.kv_blocks if part else 0.0
        return PodView(
            pod=self.pod,
            reserved_tokens=self.reserved_tokens,
            capacity_tokens=int(part.kv_tokens * share) if part else 0,
            reserved_blocks=self.reserved_blocks,
            capacity_blocks=self.capacity_blocks,
            seated=self.visits,
            prefill_backlog_tokens=self.backlog_tokens,
            prefill_tokens_per_second=self.prefill.per_second,
            ejected=is_ejected,
            scrape_age_seconds=None if correction.at is None else now - correction.at,
        )
