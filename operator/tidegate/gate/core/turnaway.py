"""Turning requests away with an honest time to come back."""

from tidegate.gate.core import denials, outlook
from tidegate.gate.core.demand import Demand
from tidegate.gate.core.fair_share import Account
from tidegate.gate.core.placement import Placement
from tidegate.gate.core.queue import Queue
from tidegate.gate.core.retry_after import Backlog, Jitter, Outages, own_seconds
from tidegate.gate.exchange import Refusal, Why


class Turnaway:
    """Makes refusals from what waits, how fast it drains and how long outages last."""

    def __init__(self, placement: Placement, queue: Queue, jitter: Jitter) -> None:
        self._placement = placement
        self._queue = queue
        self._jitter = jitter
        self._backlog = Backlog(jitter)
        self._outages = Outages(jitter)

    def contended(self, demand: Demand, why: Why, now: float, detail: str = "") -> Refusal:
        """Refuse what would not be served in time."""
        caller = demand.ask.caller
        ahead = self._queue.ahead(caller.priority, caller.tenant)
        answer, _ = self._placement.books()
        drain = outlook.drain_tokens_per_second(answer)
        cost = demand.cost_tokens
        seconds = self._backlog.seconds(caller.priority, cost, ahead.tokens, drain, now)
        return denials.contended(why, seconds, detail)

    def over_limit(self, account: Account, tokens: float, detail: str) -> Refusal:
        """Refuse a tenant until it has let go so many tokens of its own.

        It waits for the end of its own requests, so it stands in nobody's line, and nobody in its.
        """
        stay = account.stay.seconds
        if stay is None:
            stay = outlook.stay_seconds(self._placement.books()[0])
        seconds = own_seconds(tokens, account.tokens_in_flight, stay, self._jitter)
        return denials.contended(Why.TENANT_SHARE, seconds, detail)

    def unavailable(self, why: Why, now: float) -> Refusal:
        """Refuse what nobody could serve now."""
        return denials.unavailable(why, self._outages.seconds(now))

    def late(self, demand: Demand, why: Why, now: float) -> Refusal:
        """Refuse what has waited; if the pods have gone meanwhile, that is the reason."""
        missing = self._placement.missing(demand.ask)
        if missing is not None:
            return self.unavailable(missing, now)
        return self.contended(demand, why, now)

    def note(self, now: float) -> None:
        """Take note of whether there are pods to serve."""
        self._outages.note(is_up=self._placement.missing() is None, now=now)
