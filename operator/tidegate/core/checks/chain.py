"""Every check, in the order in which its verdict is told. Read it as what a plan must pass."""

from collections.abc import Callable

from tidegate.core.checks import extra_memory, hardware, memory, offload, peak, room, split
from tidegate.core.checks.subject import Case, Slice
from tidegate.core.checks.verdict import Verdict

OfSlice = Callable[[Slice], Verdict | None]
OfPool = Callable[[str, Case], Verdict | None]

ON_EACH_SLICE: tuple[OfSlice, ...] = (
    # would its pods start at all?
    offload.offload_needs_prefix_caching,
    # do they run as they are meant to?
    memory.one_request_fits_by_estimates_only,
    hardware.card_is_shared,
    memory.preemption_is_likely,
    memory.prefix_is_not_shared,
    extra_memory.extra_args_take_memory,
    offload.offload_exceeds_the_node,
    offload.offload_is_not_requested,
    # are the cards used well?
    hardware.gpus_are_left_idle,
    hardware.gpus_are_not_linked,
    hardware.group_crosses_islands,
    hardware.weights_are_widened,
    hardware.kv_is_widened,
    # can they keep what is promised?
    peak.first_token_is_unreachable,
    peak.output_token_is_unreachable,
    # is it worth what it costs?
    split.split_does_not_pay,
    offload.offload_does_not_pay,
    # and what does it cost?
    memory.prefix_shared,
    memory.speculation_priced,
    memory.preemption_priced,
    split.split_priced,
    offload.offload_priced,
    offload.node_memory_is_unknown,
)

ON_EACH_POOL: tuple[OfPool, ...] = (
    # is there room for all its pods, does it hold the peak, and compute it?
    room.gpus_are_missing,
    peak.peak_does_not_fit,
    peak.prefill_is_too_slow,
    peak.pace_is_unknown,
    peak.peak_fits,
)


def verdicts(case: Case) -> list[Verdict]:
    """Return what every check says of a plan, in the order of the chain."""
    pools = list(case.spec.pools.by_name())
    of_slices = [
        check(at) for check in ON_EACH_SLICE for pool in pools for at in case.slices_of(pool)
    ]
    of_pools = [check(pool, case) for check in ON_EACH_POOL for pool in pools]
    return [verdict for verdict in (*of_slices, *of_pools) if verdict is not None]
