"""One pod as this gate's ledger has it: its part of the pod, and what is promised of it."""

from math import ceil

from tidegate.api.gate_config import SliceConfig
from tidegate.gate.core.blocks import BlockRule
from tidegate.gate.core.correction import Correction
from tidegate.gate.core.demand import Demand
from tidegate.gate.core.gate_share import GateShare
from tidegate.gate.core.peak import Growing, Peak
from tidegate.gate.core.speeds import PrefillSpeed, Stay, TimePerToken
from tidegate.gate.exchange import Pod, PodView


class PodBook:
    """Room and use of one pod, in KV blocks, sequences and prompt tokens that wait.

    `capacity_blocks` is this gate's share with its headroom; `physical_blocks` is what a single
    request could have of an empty pod, and `idle_blocks` what one may have of it now if this gate
    has none there: less what others use, as far as the pod tells. All are 0 while the pod's slice
    is unknown: such a pod takes one request at a time.
    """

    __slots__ = (
        "backlog_requests",
        "backlog_tokens",
        "blocks",
        "capacity_blocks",
        "correction",
        "full_until",
        "idle_blocks",
        "is_clear",
        "is_present",
        "peak",
        "physical_blocks",
        "pod",
        "prefill",
        "prompt_blocks",
        "requests",
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
        self.idle_blocks = 0
        self.sequences_limit = 1
        self.is_present = True
        self.is_clear = False
        """Other gates hold no more of it than is theirs."""
        self.full_until = 0.0
        self.reserved_blocks = 0
        """What all requests hold at their ends, together; more than they ever hold at once."""
        self.reserved_tokens = 0
        self.prompt_blocks = 0
        """Of the reserved blocks those of prompts that are prefilled for another pod."""
        self.visits = 0
        self.sequences = 0
        self.waiting_sequences = 0
        """Sequences without a first token yet."""
        self.backlog_tokens = 0
        self.backlog_requests = 0
        """Requests whose prefill is known to be under way by their answer's first byte."""
        self.requests: dict[object, Growing] = {}
        """What it holds, by seat."""
        self.peak: Peak | None = None
        """Their peak, until one of them changes."""
        self.correction = Correction()
        self.prefill = PrefillSpeed()
        self.stay = Stay()
        self.time_per_token = TimePerToken()

    def belongs(self, part: SliceConfig | None, blocks: BlockRule | None) -> None:
        """Take the slice's numbers; what was measured of the pod is kept."""
        self.slice = part
        self.blocks = blocks
        if part and part.prefill_tokens_per_second:
            self.prefill.guess(part.prefill_tokens_per_second)

    def settle(self, headroom: float, share: GateShare) -> None:
        """Work out this gate's share of the pod."""
        part = self.slice
        if part is None:
            self.capacity_blocks = self.physical_blocks = self.idle_blocks = 0
            self.sequences_limit = 1
            return
        self.physical_blocks = self.correction.blocks or part.kv_blocks
        usable = self.physical_blocks * headroom - self.correction.unseen
        others = self.correction.others_blocks
        self.is_clear = self.is_clear or share.is_clear(usable, others)
        self.capacity_blocks = (
            share.whole_blocks(usable) if self.is_clear else share.sure_blocks(usable, others)
        )
        self.sequences_limit = max(1, part.max_num_seqs // share.gates)
        self.idle_blocks = self.physical_blocks
        if others is not None and self.correction.has_others and not share.is_whole:
            self.idle_blocks = max(0, int(usable - others))

    def is_idle_for(self, demand: Demand, blocks: int) -> bool:
        """Tell whether it has nothing to do that a request of so many blocks would meet.

        A request that has been overtaken enough does not heed what other gates have there.
        """
        return not self.visits and (blocks <= self.idle_blocks or demand.is_due)

    def blocks_of(self, demand: Demand, output_tokens: int) -> int:
        """Return the blocks of a request whose answers have so many tokens; 0 if unknown.

        They are never more than there are: beyond that the engine has its prompts take turns, or
        the estimate is too high.
        """
        if self.blocks is None:
            return 0
        ask = demand.ask
        tokens = demand.prompt_tokens
        blocks = self.blocks.of_request(tokens, output_tokens, ask.samples, ask.prompts)
        return min(blocks, self.physical_blocks)

    def blocks_of_prompt(self, demand: Demand) -> int:
        """Return the blocks of a request that it prefills for another pod; 0 if unknown."""
        if self.blocks is None:
            return 0
        return min(self.blocks.of(demand.prompt_tokens), self.physical_blocks)

    def growing(self, demand: Demand, made_tokens: int, output_tokens: int) -> Growing:
        """Return how a request grows from what each of its answers has to what it will have."""
        at_end = self.blocks_of(demand, output_tokens)
        return self._growing_to(at_end, demand, made_tokens, output_tokens)

    def _growing_to(
        self, at_end_blocks: int, demand: Demand, made_tokens: int, output_tokens: int
    ) -> Growing:
        now = self.blocks_of(demand, made_tokens)
        remaining = output_tokens - made_tokens
        per_token = (at_end_blocks - now) / remaining if remaining else 0.0
        return Growing(now, remaining, per_token)

    def needed(self, demand: Demand) -> tuple[int, Growing]:
        """Return the blocks of a fresh request at its end, and how it grows there.

        Pods of a slice share their rule and size, so this is worked out once for all of them.
        """
        physical = self.physical_blocks
        if (
            demand.needed is None
            or demand.needed_by is not self.blocks
            or demand.needed_of != physical
        ):
            demand.needed_by = self.blocks
            demand.needed_of = physical
            output = demand.expected_tokens
            at_end = self.blocks_of(demand, output)
            demand.needed = (at_end, self._growing_to(at_end, demand, 0, output))
        return demand.needed

    def known_peak(self) -> Peak:
        """Return the peak of its requests."""
        if self.peak is None:
            self.peak = Peak(self.requests.values())
        return self.peak

    @property
    def peak_blocks(self) -> int:
        """The most blocks that its requests, and prompts of a pair, will hold at once."""
        return ceil(self.known_peak().blocks) + self.prompt_blocks

    @property
    def may_get_more(self) -> bool:
        """Whether its endpoint is there and does not say that it is terminating."""
        return self.is_present and not self.pod.terminating

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
        """Show it; as reserved what its requests will hold at their peak."""
        reserved = self.peak_blocks
        at_peak = reserved / self.reserved_blocks if self.reserved_blocks else 1.0
        part, correction = self.slice, self.correction
        share = self.capacity_blocks / part.kv_blocks if part else 0.0
        return PodView(
            pod=self.pod,
            reserved_tokens=round(self.reserved_tokens * at_peak),
            capacity_tokens=int(part.kv_tokens * share) if part else 0,
            reserved_blocks=reserved,
            capacity_blocks=self.capacity_blocks,
            seated=self.visits,
            prefill_backlog_tokens=self.backlog_tokens,
            prefill_tokens_per_second=self.prefill.per_second,
            ejected=is_ejected,
            scrape_age_seconds=None if correction.at is None else now - correction.at,
            kv_usage=correction.usage.mean(now),
        )
