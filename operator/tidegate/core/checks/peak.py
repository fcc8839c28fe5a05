"""Does a pool hold, and compute, what arrives at the peak, at the pace that is promised."""

import math
from collections.abc import Callable, Iterable, Iterator

from tidegate.api.reasons import Reason
from tidegate.core.checks import demand, nearest, speed
from tidegate.core.checks.demand import Demand
from tidegate.core.checks.subject import Case, Slice
from tidegate.core.checks.verdict import Change, Severity, Value, Verdict, duration

_PROMPT = "spec.workload.promptTokens.p95"
_PEAK = "spec.workload.peakRequestsPerSecond"
_MOST_REPLICAS = 1000
_MORE_TRIES = 8
"""Replicas beyond the likely number that are tried: classes of node differ in what they hold."""


def peak_does_not_fit(pool: str, case: Case) -> Verdict | None:
    """More requests are in flight at the peak than the pool's KV caches hold."""
    wanted = demand.at_peak(pool, case)
    if wanted is None or wanted.requests <= (held := demand.held(pool, case)):
        return None
    return Verdict(
        Reason.PEAK_DOES_NOT_FIT,
        Severity.WARN,
        f"{_in_flight(wanted)}, and the {_pods(pool, case)} hold {held:,}",
        f"spec.pools.{pool}.replicas",
        tuple(_more_room(pool, case, held)),
        pool,
    )


def peak_fits(pool: str, case: Case) -> Verdict | None:
    """How much room is left at the peak."""
    wanted = demand.at_peak(pool, case)
    if wanted is None or wanted.requests > (held := demand.held(pool, case)):
        return None
    return Verdict(
        Reason.PEAK_FITS,
        Severity.INFORM,
        f"{_in_flight(wanted)}, and the {_pods(pool, case)} hold {held:,}: "
        f"{held / wanted.requests:.1f} times that",
        "spec.workload.peakRequestsPerSecond",
        pool=pool,
    )


def pace_is_unknown(pool: str, case: Case) -> Verdict | None:
    """A peak is declared, and an objective is missing that tells how long requests stay."""
    workload, missing = case.spec.workload, demand.needs(pool, case)
    if workload is None or workload.peak_requests_per_second is None or missing is None:
        return None
    return Verdict(
        Reason.PACE_UNKNOWN,
        Severity.INFORM,
        f"whether {workload.peak_requests_per_second:g} requests/s fit depends on how long each "
        f"stays: set {missing}",
        missing,
        pool=pool,
    )


def prefill_is_too_slow(pool: str, case: Case) -> Verdict | None:
    """The prompts of the peak need more arithmetic than the pool's GPUs have, at their best."""
    workload = case.spec.workload
    if pool == "decode" or workload is None or workload.peak_requests_per_second is None:
        return None
    rate = workload.peak_requests_per_second
    able = _prompts_per_second(pool, case)
    if able is None or rate <= able:
        return None

    def is_able(found: Case) -> str | None:
        more = _prompts_per_second(pool, found)
        if more is None or more < rate:
            return None
        return f"computes {more:.3g}{_beyond_the_nodes(pool, found)}"

    field = f"spec.pools.{pool}.replicas"
    now = case.spec.pools.by_name()[pool].replicas
    likely = _likely(now, rate, able)
    return Verdict(
        Reason.PREFILL_TOO_SLOW,
        Severity.WARN,
        f"prompts of {_prompt_tokens(case):,} tokens arrive at {rate:g} a second, and the "
        f"{_pods(pool, case)} compute {able:.3g} a second at best",
        field,
        tuple(nearest.change(field, likely, _attempt(case), is_able)),
        pool,
    )


def first_token_is_unreachable(at: Slice) -> Verdict | None:
    """A p95 prompt alone takes longer than its objective, on an idle card at its best."""
    workload, slo = at.spec.workload, at.spec.slo
    if workload is None or slo is None or slo.time_to_first_token is None:
        return None
    if at.entry.pool == "decode":
        return None
    objective, tokens = slo.time_to_first_token, workload.prompt_tokens.p95
    least = _first_token_seconds(at, tokens)
    if least is None or least <= objective:
        return None
    moved = " and moving" if at.entry.pool == "prefill" else ""
    return _unreachable(
        at,
        f"computing{moved} a p95 prompt of {tokens:,} tokens takes at least {duration(least)}, and "
        f"timeToFirstToken is {duration(objective)}",
        "spec.slo.timeToFirstToken",
        lambda found: _within(_first_token_seconds(found, tokens), objective),
    )


def output_token_is_unreachable(at: Slice) -> Verdict | None:
    """Reading the weights once takes longer than the objective for an output token."""
    objective = at.spec.slo.time_per_output_token if at.spec.slo else None
    least = speed.token_seconds(at)
    if objective is None or least is None or at.entry.pool == "prefill" or least <= objective:
        return None
    return _unreachable(
        at,
        f"a step reads the weights in at least {duration(least)}, and timePerOutputToken is "
        f"{duration(objective)}",
        "spec.slo.timePerOutputToken",
        lambda found: _within(speed.token_seconds(found), objective),
    )


def _unreachable(
    at: Slice, message: str, field: str, works: Callable[[Slice], str | None]
) -> Verdict:
    path = f"{at.path}.tensorParallel"
    sizes = nearest.wider(at.model, at.entry.engine.tensor_parallel)
    return at.verdict(
        Reason.OBJECTIVE_UNREACHABLE,
        Severity.WARN,
        f"{at.gpu.product} cannot reach it even when idle: {message}",
        field,
        tuple(nearest.change(path, sizes, at.with_field, works)),
    )


def _within(seconds: float | None, objective: float) -> str | None:
    return f"takes {duration(seconds)}" if seconds is not None and seconds <= objective else None


def _first_token_seconds(at: Slice, tokens: int) -> float | None:
    computed = speed.prefill_seconds(at, tokens - _cached(at.case))
    if computed is None:
        return None
    return computed[0] + (speed.transfer_seconds(at, tokens) if at.entry.pool == "prefill" else 0)


def _cached(case: Case) -> int:
    """Return the tokens of a prompt that the engine does not compute again."""
    workload, caches = case.spec.workload, case.spec.engine.prefix_caching
    return (workload.shared_prefix_tokens or 0) if workload and caches else 0


def _prompt_tokens(case: Case) -> int:
    """Return the tokens to compute of a usual prompt: what adds up over many is the mean."""
    workload = case.spec.workload
    assert workload is not None  # the callers look
    return (workload.prompt_tokens.mean or workload.prompt_tokens.p95) - _cached(case)


def _prompts_per_second(pool: str, case: Case) -> float | None:
    """Return the prompts that a pool computes each second at its best; None where unknown."""
    total = 0.0
    for at in case.slices_of(pool):
        computed = speed.prefill_seconds(at, _prompt_tokens(case))
        if computed is None:
            return None
        least = computed[0] / at.entry.engine.pipeline_parallel  # stages work on several at once
        total += at.entry.replicas / least if least else math.inf
    return total


def _more_room(pool: str, case: Case, held: int) -> Iterator[Change]:
    """Yield the nearest change of each kind under which the pool holds the peak.

    First what makes more room, then what the room that is there would do for.
    """

    def holds(found: Case) -> str | None:
        wanted, then = demand.at_peak(pool, found), demand.held(pool, found)
        if wanted is None or wanted.requests > then:
            return None
        if then == held:
            return f"fits: {math.ceil(wanted.requests):,} requests are in flight"
        return f"gives {then:,} requests instead of {held:,}{_beyond_the_nodes(pool, found)}"

    for path, values in _knobs(pool, case, held, lambda found: holds(found) is not None):
        yield from nearest.change(path, values, _attempt(case), holds)


def _knobs(
    pool: str, case: Case, held: int, works: Callable[[Case], bool]
) -> Iterator[tuple[str, Iterable[Value]]]:
    """Yield the fields that may help, each with the values to try, nearest first."""
    wanted, workload = demand.at_peak(pool, case), case.spec.workload
    assert wanted is not None  # the caller looked
    assert workload is not None
    asked = case.spec.pools.by_name()[pool]
    yield "spec.kvCache.dtype", nearest.other_kv_dtypes(case.spec.kv_cache.dtype)
    yield "spec.engine.maxNumSeqs", _enough_sequences(pool, case)
    yield f"spec.pools.{pool}.replicas", _likely(asked.replicas, wanted.requests, held)
    yield (
        f"spec.pools.{pool}.tensorParallel",
        nearest.wider(case.world.model, asked.tensor_parallel),
    )
    yield _PROMPT, _shorter_prompt(case, works)
    yield _PEAK, _lower_peak(wanted, held)


def _enough_sequences(pool: str, case: Case) -> list[Value]:
    """Return as many sequences as KV holds where fewer are let in."""
    pods = case.slices_of(pool)
    return [
        held
        for held in sorted({demand.held_by_kv(at) for at in pods})
        if any(at.entry.engine.max_num_seqs < held for at in pods)
    ]


def _shorter_prompt(case: Case, works: Callable[[Case], bool]) -> Iterator[Value]:
    """Yield the longest p95 prompt that works; it is looked for only when it is asked for."""
    workload, attempt = case.spec.workload, _attempt(case)
    assert workload is not None  # the caller looked
    prompt = workload.prompt_tokens
    least = max(1, prompt.mean or 1, workload.shared_prefix_tokens or 1)

    def fits(tokens: int) -> bool:
        found = attempt(_PROMPT, tokens)
        return found is not None and works(found)

    longest = nearest.largest(prompt.p95, fits, least)
    if longest is not None:
        yield longest


def _lower_peak(wanted: Demand, held: int) -> list[Value]:
    """Return the highest rate at which no more are in flight than fit, to three digits."""
    if not held or not wanted.seconds:
        return []
    rate = held / wanted.seconds
    unit: float = 10 ** (math.floor(math.log10(rate)) - 2)
    return [float(f"{math.floor(rate / unit) * unit:.3g}")]


def _likely(replicas: int, wanted: float, able: float) -> range:
    """Return the numbers of replicas to try: in proportion, and a few more."""
    if not able:
        return range(replicas + 1, min(replicas + _MORE_TRIES, _MOST_REPLICAS) + 1)
    start = max(replicas + 1, math.ceil(replicas * wanted / able) - 1)
    return range(start, min(start + _MORE_TRIES, _MOST_REPLICAS + 1))


def _beyond_the_nodes(pool: str, case: Case) -> str:
    """Say how many GPUs the pool asks for where its nodes have fewer."""
    asked = sum(entry.replicas * entry.gpus for entry in case.plan.of_pool(pool))
    there = sum(node.gpus for at in case.slices_of(pool) for node in at.nodes)
    return f" on {asked:,} GPUs, of which the nodes have {there:,}" if asked > there else ""


def _attempt(case: Case) -> Callable[[str, object], Case | None]:
    return lambda path, value: case.world.plan_with(case.spec, path, value)


def _in_flight(wanted: Demand) -> str:
    return (
        f"at {wanted.requests_per_second:g} requests/s, each for {wanted.stay} = "
        f"{duration(wanted.seconds)}, {math.ceil(wanted.requests):,} requests of "
        f"{wanted.tokens_of_request:,} tokens "
        f"({math.ceil(wanted.requests) * wanted.tokens_of_request:,} in all) are in flight"
    )


def _pods(pool: str, case: Case) -> str:
    count = sum(entry.replicas for entry in case.plan.of_pool(pool))
    return f"{count} pods of {pool}" if count != 1 else f"one pod of {pool}"
