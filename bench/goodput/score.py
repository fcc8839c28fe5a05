"""What a run was worth: goodput first, and what it cost whom."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

from bench import figures
from bench.goodput.clients import Visit

ADMITTED = frozenset({None, 200})
"""Statuses of those who were not refused; None while nothing was answered."""


@dataclass(frozen=True)
class Score:
    """One run. Rates are per second of the part that counts; NaN is what nobody had.

    `goodput` and `good_tokens` count requests that had their first token within the SLO and were
    answered to the end, with prompt and output. Who hung up without a first token counts in TTFT
    with the time it had waited.
    """

    asked: float
    goodput: float
    good_tokens: float
    ttft_p50: float
    ttft_p99: float
    refused: float
    refusal_p50: float
    refusal_p99: float
    preemptions: float
    preempted_share: float
    attempts: float
    served_short: float
    served_long: float
    failed: float


def score(
    everybody: Sequence[Visit],
    warm_seconds: float,
    seconds: float,
    slo_seconds: float,
    preemptions: int,
    now: float,
) -> Score:
    """Score a run.

    Args:
        everybody: all clients; those of the first `warm_seconds` count in preemptions only.
        warm_seconds: the part of the run before what counts.
        seconds: the part that counts.
        slo_seconds: TTFT within which an answer is good.
        preemptions: how often the engine threw a request out.
        now: the end of the run on the clients' clock.
    """
    visits = [one for one in everybody if one.request.at_seconds >= warm_seconds]
    good = [one for one in visits if one.is_good(slo_seconds)]
    admitted = sum(one.status in ADMITTED for one in everybody)
    refusals = [taken for one in visits for taken in one.refusals_seconds]
    waits = [_wait(one, now) for one in visits if one.status in ADMITTED]
    middle = statistics.median([one.request.prompt_tokens for one in visits] or [0])
    return Score(
        asked=len(visits) / seconds,
        goodput=len(good) / seconds,
        good_tokens=sum(one.tokens for one in good) / seconds,
        ttft_p50=_percentile(waits, 0.5),
        ttft_p99=_percentile(waits, 0.99),
        refused=len(refusals) / seconds,
        refusal_p50=_percentile(refusals, 0.5),
        refusal_p99=_percentile(refusals, 0.99),
        preemptions=preemptions,
        preempted_share=preemptions / max(1, admitted),
        attempts=statistics.mean([one.attempts for one in visits] or [math.nan]),
        served_short=_share(visits, slo_seconds, lambda one: one.request.prompt_tokens <= middle),
        served_long=_share(visits, slo_seconds, lambda one: one.request.prompt_tokens > middle),
        failed=sum(_is_failed(one) for one in visits),
    )


def median(scores: Sequence[Score]) -> Score:
    """Return the median of each figure."""
    columns = [asdict(one) for one in scores]
    return Score(
        **{
            field.name: statistics.median([column[field.name] for column in columns])
            for field in fields(Score)
        }
    )


def _is_failed(one: Visit) -> bool:
    """Tell whether the connection broke, or a stream ended otherwise than well."""
    return bool(one.error) or (one.ended_at is not None and not one.is_complete)


def _wait(one: Visit, now: float) -> float:
    return now - one.sent_at if one.ttft_seconds is None else one.ttft_seconds


def _share(visits: Sequence[Visit], slo_seconds: float, of: Callable[[Visit], bool]) -> float:
    some = [one.is_good(slo_seconds) for one in visits if of(one)]
    return statistics.mean(some) if some else math.nan


def _percentile(values: Sequence[float], share: float) -> float:
    return figures.percentile(values, share) if values else math.nan
