"""How many requests are in flight at the peak, by Little's law at the pace of the objectives.

What is in flight is what arrives in a second times the seconds that it stays. A request stays for
the time to its first token and the time for each output token, of the mean length where it is
declared; its KV is counted at the p95 length from its first moment, as if it were whole.
"""

from dataclasses import dataclass

from tidegate.core import prefix
from tidegate.core.checks import speed
from tidegate.core.checks.subject import Case, Slice
from tidegate.core.checks.verdict import duration


@dataclass(frozen=True)
class Demand:
    """What a pool has to hold at the peak; `stay` says how the seconds come about."""

    requests_per_second: float
    seconds: float
    tokens_of_request: int
    stay: str

    @property
    def requests(self) -> float:
        """Requests in flight."""
        return self.requests_per_second * self.seconds


def needs(pool: str, case: Case) -> str | None:
    """Return the field without which the demand on a pool is not known, None if it is known."""
    slo = case.spec.slo
    if pool != "decode" and (slo is None or slo.time_to_first_token is None):
        return "spec.slo.timeToFirstToken"
    if pool != "prefill" and (slo is None or slo.time_per_output_token is None):
        return "spec.slo.timePerOutputToken"
    return None


def at_peak(pool: str, case: Case) -> Demand | None:
    """Return the demand on a pool; None where no peak is declared, or the pace is not known."""
    workload, slo = case.spec.workload, case.spec.slo
    if workload is None or workload.peak_requests_per_second is None or needs(pool, case):
        return None
    assert slo is not None  # needs() looked
    prompt = workload.prompt_tokens.p95
    seconds, parts = 0.0, []
    if pool != "decode":
        first = slo.time_to_first_token or 0.0
        seconds += first
        parts.append(duration(first))
    if pool == "prefill":
        moved = max((speed.transfer_seconds(at, prompt) for at in case.slices_of(pool)), default=0)
        seconds += moved
        parts.append(f"{duration(moved)} of transfer")
        tokens = prompt
    else:
        answer = workload.output_tokens.mean or workload.output_tokens.p95
        pace = slo.time_per_output_token or 0.0
        seconds += answer * pace
        parts.append(f"{answer:,} x {duration(pace)}")
        tokens = prompt + workload.output_tokens.p95
    stay = " + ".join(parts)
    return Demand(workload.peak_requests_per_second, seconds, tokens, stay)


def held_by_pod(at: Slice) -> int:
    """Return the requests of the workload that one pod runs at once."""
    return min(held_by_kv(at), at.entry.engine.max_num_seqs)


def held_by_kv(at: Slice) -> int:
    """Return the requests of the workload whose KV one pod holds; a prefill pod's have no answer.

    Only for a spec with a workload.
    """
    workload = at.spec.workload
    assert workload is not None  # the callers look
    if at.entry.pool != "prefill":
        return at.entry.sizing.requests_at_p95 or 0
    is_shared = at.entry.engine.prefix_caching
    shared = (workload.shared_prefix_tokens or 0) if is_shared else 0
    return prefix.requests_of(at.entry.sizing.pool, workload.prompt_tokens.p95, 0, shared)


def held(pool: str, case: Case) -> int:
    """Return the requests of the workload that all pods of a pool hold."""
    return sum(at.entry.replicas * held_by_pod(at) for at in case.slices_of(pool))
