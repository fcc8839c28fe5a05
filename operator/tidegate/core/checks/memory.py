"""Does the KV cache hold what it is meant to, and what takes memory that was not asked for."""

from collections.abc import Sequence

from tidegate.api.reasons import Reason
from tidegate.core import prefix
from tidegate.core.budget import groups as kv_groups
from tidegate.core.checks import demand, nearest, speed
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Change, Severity, Value, Verdict, between, size


def one_request_fits_by_estimates_only(at: Slice) -> Verdict | None:
    """One request of maxModelLen fits; would it if every estimate were as high as its band goes?"""
    pool, kv = at.entry.sizing.pool, at.entry.sizing.budget.kv_cache
    blocks = _usable_blocks(at)
    if blocks >= pool.blocks_per_request:
        return None
    longest = kv_groups.longest(pool.groups, blocks, at.entry.engine.max_model_len)

    def is_certain(found: Slice) -> str | None:
        certain = _usable_blocks(found) >= found.entry.sizing.pool.blocks_per_request
        return "fits in any case" if certain else None

    knobs: list[tuple[str, Sequence[Value]]] = [
        ("spec.engine.maxModelLen", [longest] if longest else []),
        ("spec.kvCache.dtype", nearest.other_kv_dtypes(at.spec.kv_cache.dtype)),
        (f"{at.path}.tensorParallel", nearest.wider(at.model, at.entry.engine.tensor_parallel)),
    ]
    return at.verdict(
        Reason.BUDGET_UNCERTAIN,
        Severity.WARN,
        f"one request of maxModelLen {at.entry.engine.max_model_len:,} needs "
        f"{size(pool.needed_bytes)} of KV on each GPU; {size(kv.bytes)} are expected, and "
        f"{size(kv.low)} if every estimate is too low",
        "spec.engine.maxModelLen",
        tuple(
            change
            for path, values in knobs
            for change in nearest.change(path, values, at.with_field, is_certain)
        ),
    )


def preemption_is_likely(at: Slice) -> Verdict | None:
    """A user's maxNumSeqs lets in more of the workload than the KV cache holds."""
    asked = at.spec.engine.max_num_seqs
    if at.spec.workload is None or asked is None or asked <= demand.held_by_kv(at):
        return None
    fits = max(1, demand.held_by_kv(at))
    field = "spec.engine.maxNumSeqs"

    def holds(found: Slice) -> str | None:
        lets_in, held = found.spec.engine.max_num_seqs, demand.held_by_kv(found)
        return "fits" if lets_in is not None and lets_in <= held else None

    return at.verdict(
        Reason.PREEMPTION_LIKELY,
        Severity.WARN,
        f"maxNumSeqs {asked:,} lets in more than the {fits:,} requests of the workload that the "
        f"KV cache holds: the engine will throw requests out and compute them again{_cost(at)}",
        field,
        tuple(nearest.change(field, [fits], at.with_field, holds)),
    )


def preemption_priced(at: Slice) -> Verdict | None:
    """What one preemption costs: the context is computed again."""
    cost = _cost(at)
    if not cost or at.entry.pool == "prefill":
        return None
    return at.verdict(
        Reason.PREEMPTION_PRICED,
        Severity.INFORM,
        f"the engine has no swap: a request that is preempted is computed again{cost}",
        "spec.workload",
    )


def _cost(at: Slice) -> str:
    workload = at.spec.workload
    if workload is None:
        return ""
    tokens = workload.prompt_tokens.p95 + workload.output_tokens.p95
    computed = speed.prefill_seconds(at, tokens)
    if computed is None:
        return ""
    return f", which takes {between(*computed)} for a p95 context of {tokens:,} tokens"


def prefix_is_not_shared(at: Slice) -> Verdict | None:
    """A shared prefix is declared, and the engine does not keep it, or not in whole blocks."""
    shared = at.spec.workload.shared_prefix_tokens if at.spec.workload else None
    if shared is None or _shared_blocks(at, shared):
        return None
    field = "spec.engine.prefixCaching"

    def shares(found: Slice) -> str | None:
        if not _shared_blocks(found, shared):
            return None
        now, then = at.entry.sizing.requests_at_p95, found.entry.sizing.requests_at_p95
        return f"gives {then or 0:,} requests instead of {now or 0:,}"

    if not at.entry.engine.prefix_caching:
        why = "prefixCaching is off, so every request keeps a copy"
    else:
        why = (
            f"it fills no block of {at.entry.sizing.pool.block_size:,} tokens of a layer that "
            "keeps every token"
        )
    return at.verdict(
        Reason.PREFIX_NOT_SHARED,
        Severity.WARN,
        f"the shared prefix of {shared:,} tokens saves nothing: {why}",
        field,
        tuple(nearest.change(field, [True], at.with_field, shares)),
    )


def prefix_shared(at: Slice) -> Verdict | None:
    """What a shared prefix saves."""
    workload, now = at.spec.workload, at.entry.sizing.requests_at_p95
    shared = workload.shared_prefix_tokens if workload else None
    if workload is None or shared is None or now is None or not _shared_blocks(at, shared):
        return None
    pool = at.entry.sizing.pool
    alone = prefix.requests_of(pool, workload.prompt_tokens.p95, workload.output_tokens.p95)
    return at.verdict(
        Reason.PREFIX_SHARED,
        Severity.INFORM,
        f"the {shared:,} tokens that every prompt begins with are "
        f"{shared / workload.prompt_tokens.p95:.0%} of a p95 prompt and kept once: {now:,} "
        f"requests fit instead of {alone:,}",
        "spec.workload.sharedPrefixTokens",
    )


def speculation_priced(at: Slice) -> Verdict | None:
    """What a draft takes, by the plan without it."""
    speculative, sizing = at.entry.engine.speculative, at.entry.sizing
    alone = at.with_field("spec.engine.speculative", None) if speculative else None
    if speculative is None or alone is None:
        return None
    token = sizing.pool.bytes_per_token - alone.entry.sizing.pool.bytes_per_token
    now, then = sizing.requests_at_max_model_len, alone.entry.sizing.requests_at_max_model_len
    lost = sizing.pool.cache_size_tokens, alone.entry.sizing.pool.cache_size_tokens
    return at.verdict(
        Reason.SPECULATION_PRICED,
        Severity.INFORM,
        f"the {speculative.method} draft takes {size(sizing.budget.draft.bytes)} of weights and "
        f"{token:,} bytes of KV for each token on a GPU: {lost[0]:,} tokens fit instead of "
        f"{lost[1]:,}, and {now:,} requests of maxModelLen instead of {then:,}",
        "spec.engine.speculative",
        (Change("spec.engine.speculative", None, f"holds {lost[1]:,} tokens"),),
    )


def _usable_blocks(at: Slice) -> int:
    """Return the blocks for requests at the low end of the KV cache's band, the null block off."""
    pool = at.entry.sizing.pool
    return max(0, at.entry.sizing.budget.kv_cache.low // max(pool.bytes_per_block) - 1)


def _shared_blocks(at: Slice, shared_tokens: int) -> int:
    if not at.entry.engine.prefix_caching:
        return 0
    return prefix.shared_blocks(at.entry.sizing.pool, shared_tokens)
