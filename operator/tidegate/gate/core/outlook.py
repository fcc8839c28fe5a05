"""Whether it is worth waiting: a request that would be late is told so at once."""

from collections.abc import Iterable

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.core.queue import Ahead
from tidegate.gate.exchange import Why

SURENESS = 1.75
"""Times the mean wait for room that must still be in time.

A wait for the end of others is uncertain, and later requests that need less may go first: with 1.75
about nine in ten of those that wait are served.
"""


def drain_tokens_per_second(books: Iterable[PodBook]) -> float | None:
    """Return the reserved tokens that a pool releases in a second; None while unknown."""
    speeds = [speed for book in books if (speed := book.drain_tokens_per_second)]
    return sum(speeds) if speeds else None


def stay_seconds(books: Iterable[PodBook]) -> float | None:
    """Return how long a token that is held stays on the pods of a pool; None while unknown."""
    stays = [seconds for book in books if (seconds := book.stay.seconds) is not None]
    return sum(stays) / len(stays) if stays else None


def prefill_tokens_per_second(books: Iterable[PodBook]) -> float | None:
    """Return the prompt tokens that a pool prefills in a second; None while unknown."""
    speeds = [speed for book in books if (speed := book.prefill.per_second)]
    return sum(speeds) if speeds else None


def least_backlog_seconds(books: Iterable[PodBook]) -> float:
    """Return the time after which the first of the pods has no prompt waiting."""
    return min((book.backlog_seconds for book in books), default=0.0)


def may_wait_seconds(
    demand: Demand, prefill: Iterable[PodBook], objectives: Objectives, timeout_seconds: float
) -> float:
    """Return how long a request may wait before even an idle pod would be late for it."""
    speeds = [speed for book in prefill if (speed := book.prefill.per_second)]
    own = demand.prompt_tokens / max(speeds) if speeds else 0.0
    allowed = objectives.allowed_ttft(own)
    if allowed is None:
        return timeout_seconds
    return min(timeout_seconds, max(0.0, allowed - own))


def wait_seconds(
    why: Why, demand: Demand, ahead: Ahead, answer: list[PodBook], prompt: list[PodBook]
) -> float:
    """Predict the wait for a place; 0 where nothing is known yet.

    Blocks, sequences and pace come free as tokens are released; time comes as prompts are
    prefilled, and what waits ahead in the gate is prefilled before it as well.
    """
    speed = prefill_tokens_per_second(prompt)
    prompts = least_backlog_seconds(prompt)
    if speed:
        prompts += ahead.prompt_tokens / speed
    if why is Why.TTFT_SLO:
        return prompts
    drain = drain_tokens_per_second(answer)
    room = (ahead.tokens + demand.cost_tokens) / drain if drain else 0.0
    return max(SURENESS * room, prompts)
