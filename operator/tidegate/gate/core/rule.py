"""The rule: whether a pod can take a request now, by KV, time to first token, number and pace."""

from math import sqrt

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.exchange import Why

FEED_SHARE = 0.5
"""Share of the TTFT objective that a pod may have in unprefilled prompts before it gets more.

The rest of the time requests wait in the gate, where a more urgent one can still go first.
"""
SPREAD = 1.0
"""Answers end early or late: of n requests, about 1 / sqrt(n) of what they may yet grow by."""
UNMEASURED_PROMPTS = 4
"""Prompts that a pod may have in prefill while nothing is known of its speed."""


def has_room(
    book: PodBook, demand: Demand, objectives: Objectives, *, is_keeper: bool = False
) -> Why | None:
    """Test the pod that will hold the answer: KV blocks, sequences, time per output token.

    A keeper keeps room for those who are worse off.
    """
    if book.blocks is None:
        return Why.KV_BUDGET
    if not _fits(book, demand, is_keeper=is_keeper):
        return Why.KV_BUDGET
    sequences = book.sequences + demand.sequences
    if sequences > book.sequences_limit:
        return Why.MAX_SEQS
    allowed = objectives.tpot_seconds
    if allowed is not None and demand.expected_tokens:
        predicted = book.time_per_token.at(sequences)
        if predicted is not None and predicted > allowed:
            return Why.TPOT_SLO
    return None


def is_in_time(
    book: PodBook,
    demand: Demand,
    objectives: Objectives,
    waited_seconds: float,
    *,
    is_keeper: bool = False,
) -> Why | None:
    """Test the pod that will prefill the prompt: the predicted TTFT, waiting included."""
    speed = book.prefill.per_second
    if not speed:
        return Why.TTFT_SLO if book.backlog_requests >= UNMEASURED_PROMPTS else None
    slo = objectives.ttft_seconds
    if slo is None:
        return None
    ahead = book.backlog_tokens / speed
    if ahead > FEED_SHARE * slo:
        return Why.TTFT_SLO
    own = demand.prompt_tokens / speed
    if is_keeper:
        ahead += demand.spare_prompt_tokens / speed
    if waited_seconds + ahead + own > (objectives.allowed_ttft(own) or slo):
        return Why.TTFT_SLO
    return None


def holds_prompt(book: PodBook, demand: Demand) -> Why | None:
    """Test the prefill pod of a pair: blocks of the prompt, sequences."""
    if book.blocks is None:
        return Why.KV_BUDGET
    if book.reserved_blocks + book.blocks_of_prompt(demand) > book.capacity_blocks:
        return Why.KV_BUDGET
    if book.sequences >= book.sequences_limit:
        return Why.MAX_SEQS
    return None


def _fits(book: PodBook, demand: Demand, *, is_keeper: bool) -> bool:
    """Tell whether the blocks suffice: for all ends at once, or for the predicted peak."""
    capacity = book.capacity_blocks
    if is_keeper and book.blocks is not None:
        spare = demand.spare_prompt_tokens + demand.spare_output_tokens
        capacity -= book.blocks.of(spare)
    at_end, one = book.needed(demand)
    if book.reserved_blocks + at_end <= capacity:
        return True
    peak = book.known_peak()
    growth = peak.growth_blocks + one.blocks_per_token * one.remaining_tokens
    spread = SPREAD * book.correction.caution * growth / sqrt(book.visits + 1)
    room = capacity - book.prompt_blocks - spread
    return peak.with_one_more(one, room) <= room
